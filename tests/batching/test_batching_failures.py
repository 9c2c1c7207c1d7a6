"""What counts as out of memory: every disguise of it, and nothing that only quotes one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from gpuconf.batching.failures import clear_traceback, explain_on_stderr, failure_of
from gpuconf.commands.explain import explain

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="needs ../shared/corpus, people's logs, which are not shipped"
)

TEXTS = yaml.safe_load(Path(__file__).with_name("failures.yaml").read_text(encoding="utf-8"))
OF_THE_CARD = TEXTS["of the card"]


class ResourceExhaustedError(RuntimeError):
    """Named like TensorFlow's, which is not a RuntimeError; see `batching_failure_checks`."""


def test_a_full_card_is_known_in_every_disguise() -> None:
    """Each wording is an out-of-memory that a smaller batch may cure, told in one line."""
    for name, words in OF_THE_CARD.items():
        failure = failure_of(ResourceExhaustedError(words))
        assert failure is not None, name
        assert failure.is_of_the_card, name
        assert failure.summary, name
        assert "\n" not in failure.summary, name


def test_a_full_computer_is_told_apart() -> None:
    """The host's RAM is out, whatever class it has: no smaller batch helps."""
    for words in TEXTS["of the host"].values():
        for error in (MemoryError(words), ResourceExhaustedError(f"MemoryError: {words}")):
            failure = failure_of(error)
            assert failure is not None, words
            assert not failure.is_of_the_card, words


def test_other_errors_are_none_of_ours() -> None:
    """A full disk comes in the class of a full GPU, and is not one; nor do mistakes or quotes.

    Only a framework's exceptions and MemoryError tell of memory.
    """
    for name, words in TEXTS["of neither"].items():
        assert failure_of(ResourceExhaustedError(words)) is None, name
    for kind in (ValueError, KeyError, AssertionError, OSError):
        for name in ("tensor", "torch"):
            assert failure_of(kind(OF_THE_CARD[name])) is None, (kind, name)


@pytest.mark.parametrize(("on_cpu", "may_help"), [(True, True), (False, False)])
def test_the_cpu_stands_for_a_card_where_there_is_none(on_cpu: bool, may_help: bool) -> None:
    """TensorFlow's allocator on the CPU is the GPU only if nothing computes on another one."""
    words = "OOM when allocating tensor with shape[9] and type float on "
    words += "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu [Op:Mul]"
    failure = failure_of(ResourceExhaustedError(words), computes_on_cpu=on_cpu)
    assert failure is not None
    assert failure.is_of_the_card is may_help


def test_what_has_just_failed_is_not_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    """The diagnosis next to the user's error is not the one that sends people to gpuconf."""
    words = "OOM when allocating tensor with shape[10000,28,28,32] and type float on /device:GPU:0"
    error = RuntimeError(f"{words} by allocator GPU_0_bfc")
    assert "gpuconf.evaluate(model, x, y)" in str(explain(error))
    explain_on_stderr(error, "evaluate: not even one sample fits")
    shown = capsys.readouterr().err
    assert "evaluate: not even one sample fits" in shown
    assert "mixed_float16" in shown
    assert "evaluate(model" not in shown
    assert "in batches" not in shown


@pytest.mark.parametrize(
    ("words", "stays"),
    [
        ("Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED", "leave room on the GPU"),
        ("failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED", "leave room on the GPU"),
        ("Unable to allocate 45.0 GiB for an array with shape (20000, 512, 512, 3)", "stream"),
    ],
)
def test_other_cures_are_proposed(
    words: str, stays: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Profiles, and images from their paths: nobody has tried these."""
    model = Mock()
    model.evaluate.side_effect = (MemoryError if "allocate" in words else RuntimeError)(words)
    with pytest.raises((MemoryError, RuntimeError)) as raised:
        model.evaluate("x", "y")  # its traceback shows that a model of Keras is computed
    explain_on_stderr(raised.value, "evaluate")
    assert stays in capsys.readouterr().err


def test_letting_go_frees_what_the_traceback_holds() -> None:
    """Locals of the frames in which it failed are gone, in its causes too, and loops end."""
    held: list[object] = []

    class Tensor:
        def __del__(self) -> None:
            held.append("freed")

    def fails() -> None:
        tensor = Tensor()
        try:
            raise MemoryError(str(type(tensor)))
        except MemoryError as error:
            raise RuntimeError("full") from error

    try:
        fails()
    except RuntimeError as error:
        kept = error
    assert kept.__cause__ is not None
    kept.__cause__.__context__ = kept
    assert not held
    clear_traceback(kept)
    assert held == ["freed"]


_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): *", re.MULTILINE)
_CURABLE = {
    *("oom-device-tensor", "oom-device-startup", "whole-array-copied", "fragmentation"),
    *("cudnn-handle-alloc", "cudnn-internal", "cublas-alloc", "torch-oom", "jax-oom"),
}
# The exception alone says "DNN library initialization failed"; the versions stand elsewhere.
_TOLD_ELSEWHERE = {"log-32.log"}


@needs_corpus
def test_exceptions_of_real_logs() -> None:
    """The last exception of each log is out of memory exactly where its label says so."""
    seen = 0
    for entry in json.loads((CORPUS / "labels.json").read_text("utf-8")):
        log = (CORPUS / entry["file"]).read_text("utf-8", errors="replace")
        found = list(_EXCEPTION.finditer(log))
        if not found or entry["file"] in _TOLD_ELSEWHERE:
            continue
        seen += 1
        words = f"{found[-1][1]}: {log[found[-1].end() :]}"
        failure = failure_of(RuntimeError(words))
        is_full = failure is not None and failure.is_of_the_card
        assert is_full == bool(_CURABLE & set(entry["accepted_causes"])), entry["file"]
    assert seen >= 15
