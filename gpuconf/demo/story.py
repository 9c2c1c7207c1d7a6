"""Both halves of the story, run on a card, as facts; telling them is report.py's work."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuconf.demo.runner import Run, Runner

HOLD, NINETY = "hold_memory.py", "ninety_percent.py"
PROFILE = "shared-desktop"
FIRST_NEEDS_MIB, SECOND_NEEDS_MIB = 256, 1536

Progress = Callable[[str], None]
FreeBytes = Callable[[], int | None]


class Half(NamedTuple):
    """One half: the first script, the second beside it, and the one that asks for 90 %.

    ``taken_bytes`` is what the card had less once the first script held its tensor; None where
    the card tells no figures.
    """

    first: Run
    second: Run
    ninety: Run
    free_bytes: int | None
    taken_bytes: int | None


def run_half(
    runner: Runner, free_bytes: FreeBytes, progress: Progress, *, profile: str | None
) -> Half:
    """Run the three scripts, with ``profile`` as copies with one line more.

    Without gpuconf the third runs alone, since nothing runs beside the first; with it, beside.
    """
    with_line = "with the line" if profile else "without the line"
    before = free_bytes()
    progress(f"{with_line}: {HOLD} takes {FIRST_NEEDS_MIB} MiB")
    with runner.holding(HOLD, profile=profile, MIB_NEEDED=str(FIRST_NEEDS_MIB)) as ended:
        after = free_bytes()
        progress(f"{with_line}: a second {HOLD} beside it needs {SECOND_NEEDS_MIB} MiB")
        second = runner.run(HOLD, profile=profile, MIB_NEEDED=str(SECOND_NEEDS_MIB))
        if profile is not None:
            progress(f"{with_line}: {NINETY} beside it asks for 90 % of the card")
            ninety = runner.run(NINETY, profile=profile)
    if profile is None:
        progress(f"{with_line}: {NINETY} alone asks for 90 % of the card")
        ninety = runner.run(NINETY)
    taken = None if before is None or after is None else before - after
    return Half(ended[0], second, ninety, before, taken)
