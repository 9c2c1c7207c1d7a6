"""Whether the batch that ``gpuconf.estimate`` proposes for a limit runs, and is near the largest.

The truth comes from TensorFlow's own allocator with that limit: two training steps in a fresh
process either run or end in ResourceExhaustedError.  A good proposal takes two tries: it runs, and
the batch of which it is just under 95 % does not.  Otherwise bisection finds the largest batch.

The limit is one region of the simulated GPU, as on a GPU without memory growth, and no kernel runs.
On the stage ``card-xla`` XLA compiles each step.  Without ``--models`` the core
models are tried.  Exit code 1 if a proposal is missing or not good.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.estimate.batch_search import Bounds, is_good, search
from benchmarks.estimate.cases import OPTIMIZERS, Case, only_models
from benchmarks.estimate.estimates import estimate_group
from benchmarks.estimate.measurements import Measurements
from benchmarks.models.registry import ESTIMATED
from benchmarks.stages import Stage, limited
from gpuconf.basics.units import MIB

LIMITS_MIB = (256, 1024, 2048)
PART = "batches"
STAGES = {name: (name,) for name in ("card", "card-xla")}
_TIMEOUT_S = 600.0
_OOM = ("ResourceExhausted", "OOM when allocating", "ran out of memory", "RESOURCE_EXHAUSTED")


class UnknownError(Exception):
    """A try that neither ran nor ran out of memory, or a missing proposal."""


class Line(NamedTuple):
    """A model under a limit: the proposed (or first) batch and the truth, or the error."""

    case: Case
    limit_mib: int
    proposed: int | None = None
    bounds: Bounds | None = None
    error: str | None = None

    @property
    def is_good(self) -> bool | None:
        """Whether the proposal runs and is 95 % of the largest; None if unknown."""
        if self.proposed is None or self.bounds is None:
            return None
        return is_good(self.proposed, self.bounds)


def propose(case: Case, limit_mib: int, stage: Stage) -> int:
    """gpuconf's proposal for the limit; raises UnknownError if there is none."""
    jit = stage.name == "card-xla"
    found = estimate_group([case], os.environ, limit_bytes=limit_mib * MIB, jit=jit)[case.name]
    if found.largest_batch is None:
        raise UnknownError(found.error or "no batch was proposed")
    return found.largest_batch


def try_batch(case: Case, stage: Stage, kept: Measurements) -> bool:
    """Whether two steps of the case run on the stage; raises UnknownError for any other result."""
    found = kept.measure(case, stage, timeout_s=_TIMEOUT_S)
    if found.error is not None and not any(sign in found.error for sign in _OOM):
        raise UnknownError(f"batch {case.batch}: {found.error}")
    return found.error is None


def look(case: Case, limit_mib: int, stage: Stage, kept: Measurements) -> Line:
    """Propose and search."""
    proposed = None
    try:
        proposed = propose(case, limit_mib, stage)

        def runs(batch: int) -> bool:
            return try_batch(case._replace(batch=batch), limited(stage, limit_mib), kept)

        return Line(case, limit_mib, proposed, search(proposed, runs))
    except UnknownError as error:
        return Line(case, limit_mib, proposed, error=str(error))


def text(line: Line) -> str:
    """A line of the table."""
    name = f"{line.case.model} / {line.case.optimizer}"
    start = f"{name:40}{line.limit_mib:>6}{'–' if line.proposed is None else line.proposed:>10}"
    if line.bounds is None or line.proposed is None:
        return f"{start}  {line.error}"
    low, most = line.bounds.runs, line.bounds.most
    truth = str(low) if line.bounds.is_exact else f"{low}..{'?' if most is None else most}"
    shares = [f"{100 * line.proposed / each:.0f}" for each in (most, low) if each]
    ratio = "..".join(dict.fromkeys(shares)) + "%" if shares else "–"
    ran = "yes" if 0 < line.proposed <= low else "no"
    good = {True: "good", False: "bad", None: "open"}[line.is_good]
    return f"{start}{ran:>6}{truth:>14}{ratio:>12}{line.bounds.tries:>7}  {good}"


def summary(lines: Sequence[Line]) -> str:
    """A summary of all lines."""
    known = [line for line in lines if line.bounds is not None and line.proposed is not None]
    good = sum(line.is_good is True for line in known)
    too_large = sum(
        line.bounds is not None and (line.proposed or 0) > line.bounds.runs for line in known
    )
    share = f"{good / len(known):.0%}" if known else "–"
    return (
        f"{len(known)} of {len(lines)} lines with an answer: {share} run and are at least 95 % of "
        f"the largest; {too_large} proposals do not run"
    )


def lines_of(options: argparse.Namespace, stage: Stage) -> Iterator[Line]:
    """Test every chosen model with every limit."""
    names = [name for name, model in ESTIMATED.items() if options.words or model.is_core]
    cases = [Case(name, options.optimizer, ESTIMATED[name].batches[0]) for name in names]
    kept = Measurements(options.cache)
    for case in only_models(cases, options.words):
        for limit in map(int, options.limits.split(",")):
            yield look(case, limit, stage, kept)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part alone."""
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam", help="default: adam")
    limits = ",".join(map(str, LIMITS_MIB))
    parser.add_argument("--limits", metavar="MIB,MIB", default=limits, help=f"default: {limits}")
    parser.add_argument("--stage", choices=STAGES, default="card", help="default: card")


def run(options: argparse.Namespace, stages: Sequence[Stage]) -> int:
    """Propose, try, print."""
    titles = f"{'proposed':>10}{'runs':>6}{'largest':>14}{'of it':>12}{'tries':>7}"
    what = f"training, float32, on the {options.stage}"
    print(f"{what:40}{'MiB':>6}{titles}", flush=True)
    lines = []
    for line in lines_of(options, stages[0]):
        print(text(line), flush=True)
        lines.append(line)
    print("", summary(lines), sep="\n")
    return 0 if lines and all(line.is_good for line in lines) else 1
