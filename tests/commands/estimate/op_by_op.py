"""`gpuconf.estimate` of a step that XLA does not compile, whatever Keras would decide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import gpuconf
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate
from gpuconf.errors import UsageError


def op_by_op(model: Any, *args: Any, **options: Any) -> MemoryEstimate:
    """The estimate with ``jit=False``."""
    return gpuconf.estimate(model, *args, jit=False, **options)


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """A UsageError with a hint, in which these words are."""
    with pytest.raises(UsageError) as caught:
        yield
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)
