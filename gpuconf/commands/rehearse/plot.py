"""A plot of memory over time: the memory in use, the memory held, the limit, the phases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.rehearse.breakdown import DeviceReport, tightest
from gpuconf.commands.rehearse.phases import RUN
from gpuconf.commands.rehearse.rehearse import Rehearsal
from gpuconf.commands.rehearse.trace import PHASE, TapeMark, Usage
from gpuconf.errors import UsageError
from gpuconf.support.reporting.picture import IN_USE, INK, LIMIT, PALE, PLATE, canvas, plain, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HELD = "#9aa7b5"
_WEIGHTS = {"build": 0.8, "step 1": 1.3}  # widths on the axis; 1 for other steps
_PHASES = ("#f4f1ea", "#e6eef4")


def draw(rehearsal: Rehearsal, path: str) -> None:
    """Draw the device that came closest to its limit; its trace must exist."""
    device, tape = tightest(rehearsal.devices), rehearsal.first.tape
    if device is None or tape is None:
        raise UsageError(
            "there is no plot: the run left no trace of GPU memory",
            hint="leave --plot out to see only the report",
        )
    usage = next(usage for usage in tape.usages if usage.index == device.index)
    figure = canvas(10, 5)
    axes = figure.add_subplot()
    start = usage.series[0].time_ns
    end = max(usage.series[-1].time_ns, *(mark.time_ns for mark in tape.marks), start + 1)
    kinds = [each["kind"] for each in rehearsal.first.trainer.get("phases", ())]
    named = phase_stretches(tape.marks, kinds, start, end)
    clock = Clock.of(named or phases(tape.marks, start, end))
    _draw_phases(axes, clock)
    _draw_memory(axes, rehearsal, device, usage, clock)
    _draw_peak(axes, rehearsal, usage, clock)
    _draw_frame(axes, rehearsal, device)
    save(figure, path, "gpuconf rehearse: a simulated GPU, not a measurement on a GPU")


class Clock(NamedTuple):
    """Maps moments to the axis: each phase has its own width.

    On one scale, the steps would be a sliver next to the data import and the tracing of the first
    step, although they are the subject of the plot. Within a phase, time is linear.
    """

    phases: tuple[tuple[str, int, int], ...]
    edges: tuple[float, ...]

    @classmethod
    def of(cls, found: Sequence[tuple[str, int, int]]) -> Clock:
        """A clock for these phases; the full axis has length 1."""
        shown = [phase for phase in found if phase[2] > phase[1]]
        weights = [_WEIGHTS.get(name, 1.0 if name else 0.15) for name, _, _ in shown]
        edges = [0.0]
        for weight in weights:
            edges.append(edges[-1] + weight / sum(weights))
        return cls(tuple(shown), (*edges[:-1], 1.0) if shown else (0.0,))  # sums are inexact

    def place(self, time_ns: int) -> float:
        """From 0 to 1; moments outside all phases are put at the nearer end."""
        for number, (_, begin, end) in enumerate(self.phases):
            if time_ns < end or number == len(self.phases) - 1:
                share = min(max((time_ns - begin) / (end - begin), 0.0), 1.0)
                return self.edges[number] + share * (self.edges[number + 1] - self.edges[number])
        return 1.0


def phases(marks: tuple[TapeMark, ...], start_ns: int, end_ns: int) -> list[tuple[str, int, int]]:
    """The phases as (name, from, to) in nanoseconds: build, then step by step."""
    begins = {int(m.text[5:]): m.time_ns for m in marks if _is_number(m.text, "step ")}
    ends = {int(m.text[11:]): m.time_ns for m in marks if _is_number(m.text, "after step ")}
    found: list[tuple[str, int, int]] = []
    place = start_ns
    for number in sorted(ends):
        begin = max(place, begins.get(number, place))
        if begin > place:
            found.append(("build" if not found else "", place, begin))
        found.append((f"step {number}", begin, ends[number]))
        place = ends[number]
    if place < end_ns:
        unfinished = max(begins, default=0)
        name = f"step {unfinished}" if unfinished and unfinished not in ends else ""
        begin = max(place, begins.get(unfinished, place)) if name else place
        if begin > place:
            found.append(("build" if not found else "", place, begin))
        found.append((name or ("build" if not found else ""), begin, end_ns))
    return found


def phase_stretches(
    marks: Sequence[TapeMark], kinds: Sequence[str], start_ns: int, end_ns: int
) -> list[tuple[str, int, int]]:
    """The phases of a whole program; empty if there was only one."""
    switches = [
        (mark.time_ns, int(mark.text.removeprefix(PHASE)))
        for mark in marks
        if _is_number(mark.text, PHASE)
    ]
    if not switches:
        return []
    begins = [(start_ns, 0), *switches, (end_ns, 0)]
    return [
        (kinds[number] if number < len(kinds) and kinds[number] != RUN else "", begin, end)
        for (begin, number), (end, _) in pairwise(begins)
        if end > begin
    ]


def _is_number(text: str, before: str) -> bool:
    return text.startswith(before) and text[len(before) :].isdigit()


def _draw_phases(axes: Axes, clock: Clock) -> None:
    ticks, words = [], []
    for number, (name, begin, end) in enumerate(clock.phases):
        left, right = clock.edges[number], clock.edges[number + 1]
        axes.axvspan(left, right, color=_PHASES[number % 2], linewidth=0, zorder=0)
        if name and right - left > 0.05:
            ticks.append((left + right) / 2)
            words.append(f"{name}\n{_duration(end - begin)}")
    axes.set_xticks(ticks, words)


def _draw_memory(
    axes: Axes, rehearsal: Rehearsal, device: DeviceReport, usage: Usage, clock: Clock
) -> None:
    held = [each for each in rehearsal.first.held if each.card == (device.card or 0)]
    if any(each.size_bytes for each in held):
        places = [*(clock.place(each.time_ns) for each in held), 1.0]
        sizes = [each.size_bytes / MIB for each in held]
        axes.step(
            places, [*sizes, sizes[-1]], where="post", color=_HELD, linewidth=1.8,
            label="held on the GPU, with the CUDA context",
        )  # fmt: skip
    places = [*(clock.place(point.time_ns) for point in usage.series), 1.0]
    in_use = [point.size_bytes / MIB for point in usage.series]
    in_use.append(in_use[-1])
    axes.fill_between(places, in_use, step="post", color=IN_USE, alpha=0.25, linewidth=0)
    axes.step(places, in_use, where="post", color=IN_USE, linewidth=1.1, label="in use")
    axes.axhline(
        usage.limit_bytes / MIB, color=LIMIT, linewidth=1.4, linestyle=(0, (6, 3)),
        label=f"limit of TensorFlow's allocator, {sized(usage.limit_bytes)}",
    )  # fmt: skip


def _draw_peak(axes: Axes, rehearsal: Rehearsal, usage: Usage, clock: Clock) -> None:
    """The peak, and the level that the failed allocation would have reached."""
    place, height = clock.place(usage.peak_time_ns), usage.peak_bytes / MIB
    side = {"ha": "right", "x": -9} if place > 0.6 else {"ha": "left", "x": 9}
    axes.plot(place, height, "o", color=IN_USE, markersize=5, zorder=5)
    failure = rehearsal.verdict.failure
    if rehearsal.verdict.answer != "does not fit" or failure is None or not failure.asked_bytes:
        _say(axes, f"peak {sized(usage.peak_bytes)}", (place, height), side, color=INK)
        return
    top = height + failure.asked_bytes / MIB
    axes.annotate(
        "", (place, top), xytext=(place, height), zorder=4,
        arrowprops={"arrowstyle": "-|>", "color": LIMIT, "linewidth": 1.6},
    )  # fmt: skip
    axes.set_ylim(top=max(axes.get_ylim()[1], top))
    text = f"{sized(usage.peak_bytes)} in use,\n{sized(failure.asked_bytes)} more requested"
    _say(axes, text, (place, top), side, color=LIMIT)


def _say(
    axes: Axes, text: str, place: tuple[float, float], side: dict[str, Any], *, color: str
) -> None:
    axes.annotate(
        text, place, xytext=(side["x"], 3), textcoords="offset points", ha=side["ha"],
        fontsize=10, fontweight="bold", color=color, zorder=6,
        bbox=PLATE,
    )  # fmt: skip


def _draw_frame(axes: Axes, rehearsal: Rehearsal, device: DeviceReport) -> None:
    spec, figure = rehearsal.spec, axes.get_figure()
    assert figure is not None
    of = f", GPU {device.index}" if len(rehearsal.devices) > 1 else ""
    axes.set_title(
        f"Rehearsal on a SIMULATED GPU of {sized(spec.total_bytes)}{of}: "
        f"{rehearsal.verdict.answer}",
        loc="left", fontsize=13, fontweight="bold", color=INK, pad=24,
    )  # fmt: skip
    command = " ".join(rehearsal.command)
    axes.text(
        0, 1.02, command if len(command) < 110 else f"{command[:107]}…", fontsize=9,
        color=PALE, family="monospace", transform=axes.transAxes, va="bottom",
    )  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.08)
    axes.set_ylabel("MiB of GPU memory", color=PALE)
    plain(axes, "y")
    figure.legend(loc="outside lower center", frameon=False, fontsize=9, labelcolor=INK, ncols=3)


def _duration(time_ns: int) -> str:
    """A duration on the host's CPU, which does not indicate a GPU's speed."""
    return f"{time_ns / 1e9:.1f} s" if time_ns >= 1e9 else f"{time_ns / 1e6:.0f} ms"
