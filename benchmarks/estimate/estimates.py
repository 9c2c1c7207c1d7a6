"""Estimates of cases; each group of one model and policy runs in its own process."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.estimate.cases import Case
from benchmarks.estimate.measurements import CHILD
from benchmarks.stages import JIT_VARIABLE, ChildError, Stage, plain_environ, run_module

_START_S, _EACH_S = 60.0, 600.0  # with a limit, up to twelve steps run


class Estimate(NamedTuple):
    """The estimate of a case in bytes, and the seconds it took; or the error.

    It is for an allocator that takes all memory at once, as a GPU's does by default.
    """

    case: str
    peak_bytes: int | None = None
    resident_bytes: int | None = None
    largest_batch: int | None = None
    took_s: float | None = None
    error: str | None = None


def groups(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Neighbors that can share a process."""
    for _, members in itertools.groupby(cases, key=lambda case: (case.model, case.policy)):
        yield list(members)


def estimate_group(
    cases: Sequence[Case],
    environ: Mapping[str, str],
    *,
    limit_bytes: int | None = None,
    jit: bool = False,
) -> dict[str, Estimate]:
    """The estimates of cases of one model and policy, without any GPU, by the case's name.

    ``jit``: compiled by XLA.
    """
    argument = {"estimate": list(cases), "limit_bytes": limit_bytes}
    bare = {**plain_environ(environ), "CUDA_VISIBLE_DEVICES": "-1"}
    bare |= {JIT_VARIABLE: "1"} if jit else {}
    found: dict[str, Estimate] = {}
    trouble = "no answer"
    try:
        answers = run_module(CHILD, argument, Stage("none", bare), _START_S + _EACH_S * len(cases))
        found = {each["case"]: Estimate(**each) for each in answers}
    except ChildError as error:
        trouble = str(error)
    return {case.name: found.get(case.name, Estimate(case.name, error=trouble)) for case in cases}
