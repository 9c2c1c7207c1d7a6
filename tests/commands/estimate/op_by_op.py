"""`gpuconf.estimate` of a step that XLA does not compile, whatever Keras would decide."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

import gpuconf
from gpuconf.commands.estimate import estimating
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.errors import UsageError


class _SharedRunner(StepRunner):
    """Its child goes on for later estimates alike, since it takes seconds to start."""

    def __exit__(self, *_: object) -> None:
        """Nothing ends before this process does."""


@functools.cache
def _shared(target: CompileTarget, allow_growth: bool, workspace_bytes: int | None) -> StepRunner:
    runner = _SharedRunner(target, allow_growth=allow_growth, workspace_bytes=workspace_bytes)
    atexit.register(runner.close)
    return runner


def _runner(
    target: CompileTarget,
    *,
    allow_growth: bool,
    workspace_bytes: int | None,
    limit_bytes: int | None,
    must_compile: bool,
    is_here: bool,
    progress: Callable[[str], None] | None,
) -> StepRunner:
    assert not must_compile
    assert not is_here
    runner = _shared(target, allow_growth, workspace_bytes)
    runner._limit_bytes, runner._progress = limit_bytes, progress or (lambda _: None)
    return runner


def op_by_op(model: Any, *args: Any, **options: Any) -> MemoryEstimate:
    """The estimate with ``jit=False``; estimates share the processes of their steps."""
    with mock.patch.object(estimating, "StepRunner", _runner):
        return alone(model, *args, **options)


def alone(model: Any, *args: Any, **options: Any) -> MemoryEstimate:
    """The same in its own process."""
    return gpuconf.estimate(model, *args, jit=False, **options)


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """A UsageError with a hint, in which these words are."""
    with pytest.raises(UsageError) as caught:
        yield
    assert caught.value.hint
    for word in words:
        assert word in str(caught.value)
