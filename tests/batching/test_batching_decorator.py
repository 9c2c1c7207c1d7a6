"""``oom_safe``: what is cut, what is handed through, what comes back, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from gpuconf.batching import forget, oom_safe
from gpuconf.errors import UsageError

FULL = "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.00 GiB total capacity)"


@pytest.fixture(autouse=True)
def _unknown_sizes() -> Iterator[None]:
    forget()
    yield
    forget()


def limited(most: int, seen: list[int]) -> Callable[..., Any]:
    """A function that doubles numbers, as many as ``most`` at a time, and notes how many came."""

    def double(numbers: Any, *others: Any, plus: float = 0.0) -> Any:
        seen.append(len(numbers))
        if len(numbers) > most:
            raise RuntimeError(FULL)
        assert all(len(other) == len(numbers) for other in others)
        return numbers * 2 + plus

    return double


def test_options_are_kept_and_the_size_is_remembered() -> None:
    """Keywords reach the function; the next call begins with what ran, and other shapes again."""
    seen: list[int] = []
    safe = oom_safe(batch_size=8)(limited(3, seen))
    assert safe.__name__ == "double"
    np.testing.assert_array_equal(safe(np.arange(4.0), plus=1.0), np.arange(4.0) * 2 + 1)
    seen.clear()
    safe(np.arange(4.0))
    assert seen == [2, 2]
    seen.clear()
    safe(np.zeros((4, 2)))
    assert seen[0] == 4
    seen.clear()
    forget()
    safe(np.arange(4.0))
    assert seen[0] == 4


def test_functions_of_one_name() -> None:
    """What one closure found out is not held against another of the same name."""
    seen: list[int] = []
    oom_safe(limited(3, seen), batch_size=8)(np.zeros(8))
    seen.clear()
    oom_safe(limited(100, seen), batch_size=8)(np.zeros(8))
    assert seen == [8]


def test_frames_and_sparse_matrices() -> None:
    """Both are cut as they are; the function gets rows of the same kind."""
    frame = pd.DataFrame({"a": range(5), "b": range(5)})
    found = oom_safe(lambda rows: rows["a"].to_numpy(), batch_size=2)(frame)
    np.testing.assert_array_equal(found, range(5))
    matrix = scipy.sparse.csr_matrix(np.eye(5))
    found = oom_safe(lambda rows: rows.toarray(), batch_size=2)(matrix)
    np.testing.assert_array_equal(found, np.eye(5))


def test_auto_doubles() -> None:
    """An automatic size begins with 32 and doubles, until a refusal or what a GPU is busy with."""
    seen: list[int] = []
    oom_safe(limited(100, seen))(np.zeros(1000))
    assert seen[:4] == [32, 64, 128, 64]
    assert max(seen[3:]) <= 64
    assert seen.count(128) == 1
    oom_safe(limited(10**9, seen))(np.zeros(100_000))
    assert max(seen) == 1024


def test_nests_and_what_is_no_data() -> None:
    """Nests are cut alike, other positional arguments handed through, nests come back."""

    @oom_safe(batch_size=2)
    def both(pair: Any, name: str, factor: int, more: Any) -> Any:
        assert (name, factor) == ("a", 3)
        return {"left": pair["left"] * factor, "right": (pair["right"], more)}

    left, right = np.arange(5), np.arange(10).reshape(5, 2)
    found = both({"left": left, "right": right}, "a", 3, [5, 4, 3, 2, 1])
    np.testing.assert_array_equal(found["left"], left * 3)
    np.testing.assert_array_equal(found["right"][0], right)
    np.testing.assert_array_equal(found["right"][1], [5, 4, 3, 2, 1])


def test_a_method() -> None:
    """The object of a method is handed through."""

    class Embedding:
        @oom_safe(batch_size=2)
        def of(self, numbers: Any) -> Any:
            return numbers + self.shift

        shift = 7

    np.testing.assert_array_equal(Embedding().of(np.arange(5)), np.arange(5) + 7)


def test_combine_gets_results_and_sizes() -> None:
    """A mean per batch becomes the mean of all, with the last, smaller batch weighed right."""

    @oom_safe(batch_size=4, combine=lambda results, sizes: np.average(results, weights=sizes))
    def mean(numbers: Any) -> Any:
        return numbers.mean()

    assert mean(np.arange(10.0)) == pytest.approx(4.5)


def test_not_even_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The function's own error is raised at the end, and its diagnosis stands on stderr."""
    seen: list[int] = []
    with pytest.raises(RuntimeError, match="CUDA out of memory") as caught:
        oom_safe(limited(0, seen), batch_size=4)(np.zeros(4))
    assert seen == [4, 2, 1]
    assert caught.value.__traceback__ is not None
    shown = capsys.readouterr().err
    assert "not even one sample fits" in shown
    assert "PyTorch ran out of GPU memory (torch-oom)" in shown


def test_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    """No more tries than ``max_retries``."""
    seen: list[int] = []
    with pytest.raises(RuntimeError):
        oom_safe(limited(0, seen), batch_size=1024, max_retries=2)(np.zeros(1024))
    assert seen == [1024, 512, 256]
    assert "still out of memory after 3 tries" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ValueError(FULL), MemoryError("Unable to allocate 9 GiB")])
def test_not_the_card(error: Exception) -> None:
    """Other errors, and the host's RAM, are raised at once: smaller is not a cure."""
    calls: list[int] = []

    @oom_safe(batch_size=4)
    def fail(numbers: Any) -> Any:
        calls.append(len(numbers))
        raise error

    with pytest.raises(type(error)):
        fail(np.zeros(8))
    assert calls == [4]


def test_mistakes() -> None:
    """Each has one clear error, with a hint, before the function is called or anything lost."""
    seen: list[int] = []
    safe = oom_safe(limited(9, seen), batch_size=4)
    with pytest.raises(UsageError, match="3, 4"):
        safe(np.zeros(4), np.zeros(3))
    for nothing in ((), (np.zeros(0),)):
        with pytest.raises(UsageError, match="samples, but must all have"):
            safe(*nothing)
    with pytest.raises(UsageError, match="batch_size=0"):
        oom_safe(batch_size=0)
    assert seen == []
    with pytest.raises(UsageError, match="without one row per sample") as caught:
        oom_safe(lambda numbers: numbers.mean())(np.zeros(4))
    assert caught.value.hint is not None
