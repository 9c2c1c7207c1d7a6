"""Draw the pictures of the pages again: `make pictures`, or `python docs/pictures/draw.py NAME …`.

Each runs the real command, on a simulated GPU where it needs one; no figure is typed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures import (
    crowded_card,
    doctor,
    ps,
)  # next to this file, in a folder that no package holds
from pictures.plots import plotted
from pictures.terminal import picture

HERE = Path(__file__).parent
# The worked example of docs/reference/estimate.md.
ESTIMATE = (
    "estimate flow_network:make --batch-size 2 --limit 5.5GiB --workspace-limit 256MiB --no-jit"
)


def _crowded_card() -> str:
    return crowded_card.picture(*crowded_card.halves())


def _ps() -> str:
    return picture(ps.PROMPT, ps.output(), ps.ABOUT)


def _doctor() -> str:
    return picture(doctor.PROMPT, doctor.output(), doctor.ABOUT)


def _estimate() -> str:
    return plotted(
        ESTIMATE.split(),
        Path("docs/examples"),
        "gpuconf estimate --plot: memory over one training step by what it is for, with the peak "
        "above the limit, and a bar for each layer",
    )


def _explain() -> str:
    return plotted(
        ["explain", "fragmentation.log"],
        Path("tests/commands/explain/simulated/logs"),
        "gpuconf explain --plot: a bar of what is in use and of the free chunks, none as long as "
        "the request",
    )


PICTURES: dict[str, Callable[[], str]] = {
    "crowded-card": _crowded_card,
    "ps": _ps,
    "doctor": _doctor,
    "estimate": _estimate,
    "explain-memory": _explain,
}


def main(names: Sequence[str]) -> None:
    """Draw these, all without a name."""
    for name in names or PICTURES:
        path = HERE / f"{name}.svg"
        path.write_text(PICTURES[name](), encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
