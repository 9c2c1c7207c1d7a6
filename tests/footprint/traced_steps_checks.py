"""Checks of how often one estimate runs a model's code, run by ``test_in_tensorflow``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import keras
from keras import layers

import gpuconf

BATCH = 16


class Counting(layers.Layer):  # type: ignore[misc]
    """A layer that notes the batch sizes that it is called with, None for symbolic calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int | None] = []

    def call(self, inputs: Any) -> Any:
        """What it is given."""
        self.calls.append(inputs.shape[0])
        return inputs


def counted(*, is_built: bool = True) -> tuple[Any, Counting]:
    """A model, compiled, and its layer that counts from now on."""
    counting = Counting()
    start = [keras.Input((64,))] if is_built else []
    model = keras.Sequential([*start, layers.Dense(256), counting, layers.Dense(8)])
    model.compile("adam", "mse")
    counting.calls.clear()
    return model, counting


def check_an_estimate_alone_is_one_trace() -> None:
    """The model's code runs once, at the batch size that is asked for."""
    model, counting = counted()
    gpuconf.estimate(model, BATCH)
    assert counting.calls == [BATCH]


def check_no_batch_size_is_traced_twice() -> None:
    """Phases, the largest batch and advice share their traces; each is announced."""
    model, counting = counted()
    said: list[str] = []
    found = gpuconf.estimate(
        model, BATCH, limit="900KiB", phases=True, advise=True, progress=said.append
    )
    assert found.phases
    assert found.largest_batch
    tracing = [line for line in said if line.startswith("tracing a training step of batch ")]
    assert len(tracing) == len(set(tracing))
    assert tracing[0].endswith(f"batch {BATCH}")
    # Other changes are traced at the batch size asked for: each is a model or choice of its own.
    changes = [line for line in said if line.startswith("what would save memory: ")]
    others = Counter(counting.calls)
    assert others.pop(BATCH) <= 1 + len(changes)
    assert all(times == 1 for times in others.values())


def check_advice_only_where_it_does_not_fit() -> None:
    """With ``advise=None`` one call does both, and where it fits nothing more is traced."""
    model, counting = counted()
    fits = gpuconf.estimate(model, BATCH, limit="1GiB", advise=None)
    assert not fits.advice
    assert max(Counter(counting.calls).values()) == 1
    small = gpuconf.estimate(model, BATCH, limit="250KiB", advise=None)
    assert small.fits is False
    assert small.advice
