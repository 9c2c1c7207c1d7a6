"""Estimates of cases; each group of one model and policy runs in its own process."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.estimate.estimate_cases import Case
from benchmarks.estimate.stages import JIT_VARIABLE, ChildError, plain_environ, run_child

_MODULE, _TOLD = "benchmarks.estimate.estimate_child", "ESTIMATED "
_START_S, _EACH_S = 60.0, 120.0


class Estimate(NamedTuple):
    """The estimate of a case in bytes, and the seconds it took; or the error.

    ``peak_bytes`` is for an allocator that grows by regions, such as the CPU's.
    ``one_region_bytes`` is for one that takes all memory at once, as a GPU's does by default; the
    largest batch is for the latter.
    """

    case: str
    peak_bytes: int | None = None
    one_region_bytes: int | None = None
    resident_bytes: int | None = None
    largest_batch: int | None = None
    took_s: float | None = None
    error: str | None = None


def groups(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Neighbours that can share a process."""
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
    argument = {"cases": [list(case) for case in cases], "limit_bytes": limit_bytes}
    bare = {**plain_environ(environ), "CUDA_VISIBLE_DEVICES": "-1"}
    bare |= {JIT_VARIABLE: "1"} if jit else {}
    timeout_s = _START_S + _EACH_S * len(cases)
    said: dict[str, Estimate] = {}
    trouble = "not told"
    try:
        for told in run_child(_MODULE, argument, environ=bare, told=_TOLD, timeout_s=timeout_s):
            said[told["case"]] = Estimate(**told)
    except ChildError as error:
        trouble = str(error)
    return {case.name: said.get(case.name, Estimate(case.name, error=trouble)) for case in cases}
