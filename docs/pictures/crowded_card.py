"""The crowded GPU without and with gpuconf: the facts of `gpuconf demo`, run here, as two bars."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import matplotlib

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures.plots import SETTINGS, for_both  # next to this file, in a folder no package holds
from transcripts import environment

import gpuconf.commands.demo
from gpuconf.basics.units import MIB, sized
from gpuconf.commands.cli.demo import SPEC
from gpuconf.commands.demo.report import end_lines, limits_of
from gpuconf.commands.demo.runner import FIRST_LINE, Runner, ScriptRun
from gpuconf.commands.demo.story import PROFILE, TRAIN, ScenarioRuns, learned, run_scenario
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.profile import load_profile
from gpuconf.session.plans import plan_within
from gpuconf.simcard import bridge_for_command, simulated_card
from gpuconf.support.reporting.picture import INK, LIMIT, PALE, canvas, plain, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ABOUT = (
    "A crowded GPU as two bars. Without gpuconf the first training takes nearly all that the "
    "desktop leaves, and the second fails. With gpuconf each leases its own part, and both train."
)
# The first three are dark enough for pale words on light and on dark pages.
_DESKTOP, _FIRST, _SECOND, _FREE = "#5f6b77", "#26678f", "#47764a", "#e3e7ea"
_ON_COLOR = "#f8fafc"
_HEIGHT = 0.5
_NARROWEST = 0.08  # of the GPU; what is narrower has its label next to it


class Part(NamedTuple):
    """A part of the GPU's memory."""

    size_bytes: int
    label: str
    color: str


def halves() -> tuple[ScenarioRuns, ScenarioRuns]:
    """Both halves of the demo, run on its simulated GPU."""
    bridge = bridge_for_command([sys.executable])
    programs = Path(gpuconf.commands.demo.__file__).with_name("programs")
    with simulated_card(SPEC) as card, tempfile.TemporaryDirectory(prefix="picture-") as home:
        clean = {**environment(Path(home), os.environ), "KERAS_BACKEND": "tensorflow"}
        environ = card.environment(clean, bridge=bridge)
        runner = Runner(sys.executable, environ, programs=(programs,), timeout_s=600)
        try:
            before = run_scenario(runner, card.free_bytes, print, profile=None)
            return before, run_scenario(runner, card.free_bytes, print, profile=PROFILE)
        finally:
            runner.close()


def picture(before: ScenarioRuns, after: ScenarioRuns) -> str:
    """The bars, each with what became of the two trainings, as an SVG."""
    heading = (
        f"{TRAIN} twice on a GPU of {sized(SPEC.total_bytes)} whose desktop uses "
        f"{sized(SPEC.used_bytes)}"
    )
    with matplotlib.rc_context(SETTINGS), tempfile.TemporaryDirectory(prefix="picture-") as name:
        figure = canvas(10, 3.9, heading, fontweight="bold")
        axes = figure.subplots()
        _bar(axes, 0, "without gpuconf", _before(before))
        _outcome(axes, 0, _ends(before))
        line = FIRST_LINE.strip()
        _bar(axes, 1, f"with `{line}` on top, profile {PROFILE}", _after())
        _outcome(axes, 1, _ends(after))
        _finish(axes)
        path = Path(name, "card.svg")
        save(figure, str(path), ABOUT)
        return for_both(path.read_text(encoding="utf-8"), ABOUT)


def _before(half: ScenarioRuns) -> list[Part]:
    """All that the first training took, and what it left."""
    assert half.free_bytes is not None
    assert half.left_bytes is not None
    took = half.free_bytes - half.left_bytes
    return [
        _desktop(),
        Part(took, f"the first takes {sized(took)}", _FIRST),
        Part(half.left_bytes, f"{sized(half.left_bytes)}\nleft", _FREE),
    ]


def _after() -> list[Part]:
    """What the plan leases to each of the two, one after the other."""
    parts, free = [_desktop()], SPEC.total_bytes - SPEC.used_bytes
    for which, color in (("first", _FIRST), ("second", _SECOND)):
        limit, lease = planned(free)
        words = f"the {which} leases {sized(lease)}:\n{sized(limit)} limit + CUDA context"
        parts.append(Part(lease, words, color))
        free -= lease
    return [*parts, Part(free, f"{sized(free)} left", _FREE)]


def planned(free_bytes: int) -> tuple[int, int]:
    """The limit and the lease of the profile where so much is free."""
    major, minor = SPEC.compute_capability.split(".")
    gpu = Gpu(
        index=0,
        name=SPEC.name,
        uuid="GPU-0",
        total_bytes=SPEC.total_bytes,
        free_bytes=free_bytes,
        used_bytes=SPEC.total_bytes - free_bytes,
        compute_capability=(int(major), int(minor)),
    )
    plan = plan_within(load_profile(PROFILE), environ={}, read=lambda: Inventory((gpu,)))
    (planned,) = plan.gpus
    assert planned.limit_bytes is not None
    assert planned.lease_bytes is not None
    return planned.limit_bytes, planned.lease_bytes


def _desktop() -> Part:
    return Part(SPEC.used_bytes, f"desktop\n{sized(SPEC.used_bytes)}", _DESKTOP)


def _bar(axes: Axes, place: int, name: str, parts: Sequence[Part]) -> None:
    left = 0.0
    for size_bytes, label, color in parts:
        size = size_bytes / MIB
        axes.barh(place, size, left=left, height=_HEIGHT, color=color, linewidth=0)
        is_free = color == _FREE
        if size_bytes < _NARROWEST * SPEC.total_bytes:
            axes.annotate(
                label, (left + size, place), xytext=(6, 0), textcoords="offset points",
                va="center", fontsize=9, color=INK,
            )  # fmt: skip
        else:
            axes.text(
                left + size / 2, place, label, ha="center", va="center", fontsize=9.5,
                color=INK if is_free else _ON_COLOR,
            )  # fmt: skip
        left += size
    axes.text(0, place - _HEIGHT / 2 - 0.05, name, va="bottom", fontsize=10.5, color=INK)


def _ends(half: ScenarioRuns) -> tuple[str, bool]:
    """What became of the two trainings, in words, and whether both learned."""
    first, second = half.first, half.second
    if not (learned(first) and learned(second)):
        return f"the first {_end(first)}; the second {_end(second)}", False
    assert first.result is not None
    assert second.result is not None
    together = " at once" if half.both_trained_s >= 1 else ""
    same = ", with the same losses" if first.result["losses"] == second.result["losses"] else ""
    return f"both train{together}{same}", True


def _end(run: ScriptRun) -> str:
    if learned(run):
        return "trains"
    error = end_lines(run)[-1].strip().partition(":")[0]
    return f"gets {limits_of(run)} and fails: {error}"


def _outcome(axes: Axes, place: int, ends: tuple[str, bool]) -> None:
    words, lives = ends
    axes.text(
        0, place + _HEIGHT / 2 + 0.06, words, va="top", fontsize=10.5, fontweight="bold",
        color=INK if lives else LIMIT,
    )  # fmt: skip


def _finish(axes: Axes) -> None:
    axes.set_xlim(0, SPEC.total_bytes / MIB)
    axes.set_ylim(1.62, -0.5)
    axes.set_yticks([])
    axes.set_xlabel(
        "MiB of a simulated GPU; TensorFlow's real allocator (gpuconf demo)", color=PALE
    )
    plain(axes)
