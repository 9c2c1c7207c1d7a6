"""The short story of ``gpuconf demo --quick``: one tensor, twice on one GPU.  Nothing is trained.

It starts TensorFlow four times, compiles no kernels, and does not need scikit-learn.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.units import sized
from gpuconf.commands.demo.report import end_lines, limits_of, outcome
from gpuconf.commands.demo.runner import Runner, ScriptRun
from gpuconf.commands.demo.story import FreeBytes, Progress

TENSOR = "one_tensor.py"


class QuickHalf(NamedTuple):
    """One half: the first program, and the second one at the same time.

    ``free_bytes`` were free before the start, and ``left_bytes`` once the first program held its
    tensor.
    """

    first: ScriptRun
    second: ScriptRun
    free_bytes: int
    left_bytes: int


def run_quick_half(
    runner: Runner, free_bytes: FreeBytes, progress: Progress, *, profile: str | None
) -> QuickHalf:
    """Run the program twice; with ``profile``, as copies with one more line."""
    here = "with gpuconf" if profile else "without gpuconf"
    before = free_bytes()
    progress(f"{here}: {TENSOR} starts")
    with runner.holding(TENSOR, profile=profile) as ended:
        left = free_bytes()
        progress(f"{here}: a second {TENSOR} starts next to it")
        second = runner.run(TENSOR, profile=profile)
    return QuickHalf(ended[0], second, before, left)


def quick_holds(before: QuickHalf, after: QuickHalf) -> bool:
    """Whether the second program failed without gpuconf, and everything else ran."""
    ran = all(run.code == 0 for run in (before.first, after.first, after.second))
    return ran and before.second.code != 0


def quick_before_lines(half: QuickHalf) -> list[str]:
    """The output of the half without gpuconf."""
    return [
        f"1. {TENSOR} needs {_needed(half.first)}. With its CUDA context it takes "
        f"{sized(half.free_bytes - half.left_bytes)} of the {sized(half.free_bytes)} that were "
        "free.",
        *end_lines(half.first),
        f"2. A second {TENSOR} next to it finds {sized(half.left_bytes)}, and "
        f"{outcome(half.second)}",
        *end_lines(half.second),
    ]


def quick_after_lines(half: QuickHalf) -> list[str]:
    """The output of the half with the extra line."""
    return [
        f"1. {TENSOR} {outcome(half.first)} Its limit: {limits_of(half.first)}.",
        *end_lines(half.first),
        f"2. A second {TENSOR} next to it {outcome(half.second)} Its limit: "
        f"{limits_of(half.second)}.",
        *end_lines(half.second),
    ]


def _needed(run: ScriptRun) -> str:
    return "some memory" if run.result is None else f"{run.result['in_use_mib']} MiB"
