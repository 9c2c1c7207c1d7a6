"""Both halves of the story, run on a GPU, as data; report.py formats them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuconf.commands.demo.runner import Runner, ScriptRun

TRAIN, NINETY = "train_digits.py", "ninety_percent.py"
PROFILE = "half-card"
_TRAINS = "Epoch 1/"  # printed by Keras at the start of training

Progress = Callable[[str], None]
FreeBytes = Callable[[], int]


class ScenarioRuns(NamedTuple):
    """One half: the first training run, the second alongside it, and the script that requests 90 %.

    ``free_bytes`` were free before the start, and ``left_bytes`` once the first run had started to
    train.
    """

    first: ScriptRun
    second: ScriptRun
    ninety: ScriptRun
    free_bytes: int
    left_bytes: int

    @property
    def both_trained_s(self) -> float:
        """The number of seconds in which both were training; 0 if they never overlapped."""
        spans = [run.result["trained"] for run in (self.first, self.second) if run.result]
        if len(spans) < 2:
            return 0.0
        together_s: float = min(end for _, end in spans) - max(start for start, _ in spans)
        return max(0.0, together_s)


def run_scenario(
    runner: Runner, free_bytes: FreeBytes, progress: Progress, *, profile: str | None
) -> ScenarioRuns:
    """Run the three scripts; with ``profile``, as copies with one more line.

    The second training run starts once the first has begun to train, and the first uses its memory
    until the second has ended. Without gpuconf the third script runs alone, since nothing can run
    alongside the first; with gpuconf it runs alongside the first.
    """
    here = "with gpuconf" if profile else "without gpuconf"
    before = free_bytes()
    progress(f"{here}: {TRAIN} starts")
    with runner.holding(TRAIN, profile=profile, sign=_TRAINS) as ended:
        left = free_bytes()
        progress(f"{here}: a second {TRAIN} starts next to it")
        second = runner.run(TRAIN, profile=profile)
        if profile is not None:
            progress(f"{here}: {NINETY} starts next to the first")
            ninety = runner.run(NINETY, profile=profile)
    if profile is None:
        progress(f"{here}: {NINETY} starts alone")
        ninety = runner.run(NINETY)
    return ScenarioRuns(ended[0], second, ninety, before, left)


def learned(run: ScriptRun) -> bool:
    """Whether training finished and classifies more than half of the unseen digits correctly."""
    return run.code == 0 and run.result is not None and run.result["accuracy"] > 0.5


def holds(before: ScenarioRuns, after: ScenarioRuns) -> bool:
    """Whether the runs went as described in the README."""
    trained = all(learned(run) for run in (before.first, after.first, after.second))
    return trained and before.second.code != 0 and after.ninety.code == 0
