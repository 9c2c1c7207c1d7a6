"""``gpuconf rehearse``: a rehearsal as lines and tables for people.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.messages.failure import Failure
from gpuconf.rehearsal.advice import advice
from gpuconf.rehearsal.breakdown import (
    DeviceReport,
    ProgramNames,
    Row,
    is_compiled_call,
    is_kernels_own,
    names_of,
    place_of,
    tightest,
)
from gpuconf.rehearsal.cells import cell_table, cells_of
from gpuconf.rehearsal.phases import COMPUTING, RanPhase, failed_phase, growing, phases_of, what_ran
from gpuconf.rehearsal.rehearse import Rehearsal
from gpuconf.rehearsal.target import free_bytes, reserve_bytes
from gpuconf.reporting.lines import Line, Table
from gpuconf.simcard import CardSpec
from gpuconf.units import MIB, mib_figures, sized

_LABEL = re.compile(r" {11}|\w[\w ]{0,9}  +")
_MOST_ROWS = 8
_MOST_FILES = 4
_SMALLEST_ROW_BYTES = MIB // 20  # less would stand there as 0.0
# What TensorFlow calls what no line of a script names.
_WORDS = {
    "SameWorkerRecvDone": "copy between devices",
    "_EagerConst": "data and constants from Python",
    "ScratchBuffer": "scratch memory of the device",
}
_KERNELS_OWN = (
    "scratch memory of TensorFlow's CPU kernel, which computes here; on a GPU cuDNN takes a "
    "workspace of its own instead, as large as it finds room for"
)
_SIMULATED = "Simulated: the card, its driver and the CUDA context (as large as --context says)."
_COMPILED = (
    "What XLA compiles takes the memory that XLA has assigned for this card; its numbers are "
    "computed on the CPU, in host memory. Not in it: cuDNN's workspaces, and what the first step "
    "takes while XLA tries algorithms."
)
_OP_BY_OP = "Not in it: cuDNN's workspaces and XLA (jit functions run operation by operation)."
_THE_BLOCK = "the block of memory for a whole compiled step, activations and temporaries"
_NOT_COMPARED = "The peak on a real GPU may differ: it was not compared with one."


class ReportSection(NamedTuple):
    """A heading, its lines, and its table if it has one."""

    heading: str
    lines: tuple[str, ...] = ()
    table: Table | None = None


def lines_of(section: ReportSection) -> Iterator[Line]:
    """Its lines, indented; what is broken off stands below the text, not below its label."""
    for text in section.lines:
        label = _LABEL.match(text)
        yield Line(f"  {text}", hang=2 + (len(label[0]) if label else 2))


def title(rehearsal: Rehearsal) -> str:
    """The card and the program, in one line each."""
    spec, trainer = rehearsal.spec, rehearsal.first.trainer
    cards = "1 SIMULATED card" if spec.count == 1 else f"{spec.count} SIMULATED cards"
    of_each = "" if spec.count == 1 else " each"
    frameworks = [f"TensorFlow {trainer['tensorflow']}"] if "tensorflow" in trainer else []
    if "keras" in trainer:
        frameworks.append(" ".join(trainer["keras"]))
    batch = (trainer.get("batch") or {}).get("used")
    setting = [
        *frameworks,
        *([f"profile {rehearsal.orders.profile}"] if rehearsal.orders.profile else []),
        *([f"batch {batch}"] if batch else []),
        *_way(rehearsal),
    ]
    return (
        f"{cards} of {sized(spec.total_bytes)}{of_each}, {sized(spec.used_bytes)} used by others, "
        f"{sized(spec.context_bytes)} for the CUDA context"
        + (f"\n{', '.join(setting)}" if setting else "")
    )


def reality(rehearsal: Rehearsal) -> tuple[str, str]:
    """What of it was real, and what was not."""
    real = "TensorFlow, its GPU device code and its memory allocator, and your script"
    if rehearsal.xla is None:
        return f"Real: {real}.", f"{_SIMULATED} {_OP_BY_OP} {_NOT_COMPARED}"
    real = real.replace("memory allocator,", "memory allocator, its XLA,")
    libdevice = "" if rehearsal.xla.is_from_wheel else f" libdevice is {rehearsal.xla.libdevice}."
    return f"Real: {real}.", f"{_SIMULATED} {_COMPILED} {_NOT_COMPARED}{libdevice}"


def _way(rehearsal: Rehearsal) -> list[str]:
    """How the trainings ran, as far as Keras has a say in that."""
    is_compiled = (rehearsal.first.trainer.get("model") or {}).get("is_compiled")
    if is_compiled is None:
        return []
    return ["compiled by XLA" if is_compiled and rehearsal.xla is not None else "without XLA"]


def headline(rehearsal: Rehearsal) -> str:
    """The verdict in a line."""
    verdict, device = rehearsal.verdict, tightest(rehearsal.devices)
    text = f"{verdict.answer}: {verdict.because}"
    if verdict.answer == "fits" and device is not None:
        share = 100 * device.peak_bytes / max(device.limit_bytes, 1)
        text += (
            f"; at the peak {sized(device.peak_bytes)} were in use, {share:.0f} % of the "
            f"{sized(device.limit_bytes)} that TensorFlow may take"
        )
    return text


def warnings(rehearsal: Rehearsal) -> list[str]:
    """What to know of a script that fits."""
    return growing(phases_of(rehearsal.first)) if rehearsal.verdict.answer == "fits" else []


def sections(rehearsal: Rehearsal) -> tuple[ReportSection, ...]:
    """What the first run has shown, below the headline."""
    found = []
    names = names_of(rehearsal.first.trainer)
    failure, device = rehearsal.verdict.failure, tightest(rehearsal.devices)
    if failure is not None and rehearsal.verdict.answer == "does not fit":
        lines = _failure_lines(failure, names, rehearsal.devices)
        found.append(ReportSection("what failed", tuple(lines)))
    ran = phases_of(rehearsal.first)
    if table := _phase_table(ran):
        found.append(ReportSection("what ran", table=table))
    if table := cell_table(cells_of(rehearsal.first)):
        found.append(ReportSection("cells", table=table))
    if device is not None and _shows_training(rehearsal):
        sums = _limit_sum(rehearsal.spec, device.limit_bytes)
        found.append(ReportSection("memory", sums, _device_table(rehearsal.devices)))
    if device is not None and device.rows and _shows_training(rehearsal):
        which = f" of GPU {device.index}" if len(rehearsal.devices) > 1 else ""
        heading = f"what took the {sized(device.peak_bytes)} at the peak{which}"
        found.append(ReportSection(heading, table=_row_table(device)))
    if left_out := tuple(_left_out(rehearsal.first.trainer)):
        found.append(ReportSection("what did not run", left_out))
    if rehearsal.notes or rehearsal.survived:
        found.append(ReportSection("notes", tuple(_notes(rehearsal))))
    return tuple(found)


def advice_section(rehearsal: Rehearsal) -> tuple[ReportSection, ...]:
    """What would fit, which further runs may have found out."""
    lines = advice(rehearsal)
    return (ReportSection("what would fit", tuple(lines)),) if lines else ()


def _phase_table(phases: Sequence[RanPhase]) -> Table | None:
    """What ran, in its order; the largest peak is marked."""
    shown = [each for each in phases if each.peak_bytes or each.steps or each.error]
    if not any(each.kind in COMPUTING for each in shown):
        return None
    failed = failed_phase(shown)
    most = max(shown, key=_fullness)
    marked = failed or most
    shown = [each for each in shown if _is_worth_a_row(each, _fullness(most))]
    rows = []
    for each in shown:
        of = "" if each.of is None else f" of {each.of}"
        peak = "unknown" if each.peak_bytes is None else sized(each.peak_bytes)
        share = f"{_fullness(each):.0%}" if each.peak_bytes is not None else ""
        sign = "memory ran out" if failed else "the peak"
        mark = f" ← {sign}" if each is marked and (failed or len(shown) > 1) else ""
        rows.append(
            (
                each.what,
                each.where or "",
                "" if each.batch is None else str(each.batch),
                f"{each.steps}{of}" if each.steps else "",
                peak,
                f"{share}{mark}",
            )
        )
    return Table(("", "line", "batch", "steps", "peak in use", "of the limit"), rows)


def _is_worth_a_row(phase: RanPhase, most: float) -> bool:
    """What computed; of the rest what is not small beside that."""
    return phase.kind in COMPUTING or bool(phase.error) or _fullness(phase) > most / 10


def _fullness(phase: RanPhase) -> float:
    return (phase.peak_bytes or 0) / max(phase.limit_bytes or 0, 1)


def _left_out(trainer: Mapping[str, Any]) -> Iterator[str]:
    """What did not run, and what was not written."""
    for each in trainer.get("not_run", ()):
        at = f" at {each['where']}" if each.get("where") else ""
        why = f": {each['why']}" if each.get("why") else ""
        yield f"{each.get('what')}{at}{why}"
    files = [str(name) for name in trainer.get("diverted", ())]
    if files:
        more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
        yield f"not written: {', '.join(files[:_MOST_FILES])}{more}; these files are as they were"


def _shows_training(rehearsal: Rehearsal) -> bool:
    """Whether the peak is one of a training: not of a script that failed before it began."""
    failure = rehearsal.verdict.failure
    is_oom = failure is not None and failure.kind == "gpu_memory"
    return is_oom or what_ran(phases_of(rehearsal.first)) is not None or _has_steps(rehearsal)


def _has_steps(rehearsal: Rehearsal) -> bool:
    return int(rehearsal.first.trainer.get("steps", 0)) > 0


def _limit_sum(spec: CardSpec, limit_bytes: int) -> tuple[str, ...]:
    """Where the limit comes from, as far as that is known."""
    total, used, context = map(sized, (spec.total_bytes, spec.used_bytes, spec.context_bytes))
    left = f"{total} - {used} used - {context} context"
    reserve = reserve_bytes(spec)
    if abs(free_bytes(spec) - reserve - limit_bytes) < MIB:
        return (f"{left} - {sized(reserve)} that TensorFlow leaves free = {sized(limit_bytes)}",)
    if limit_bytes < free_bytes(spec):
        free = sized(free_bytes(spec))
        return (f"{left} = {free}, of which TensorFlow was allowed {sized(limit_bytes)}",)
    return ()


def _failure_lines(
    failure: Failure, names: ProgramNames, devices: Sequence[DeviceReport]
) -> list[str]:
    if failure.kind == "refused":
        # Its hint is for a GPU of this machine; what helps here stands in the advice.
        return [line for line in failure.message.splitlines() if "hint: " not in line]
    lines = []
    if failure.node is not None:
        what, layer, _ = place_of(failure.node, names)
        is_block = is_compiled_call(failure.node)
        lines.append(f"operation  {_THE_BLOCK if is_block else failure.node}")
        if layer is not None:
            lines.append(f"layer      {layer} ({what})")
    if failure.shape is not None:
        lines.append(f"tensor     {list(failure.shape)} {failure.dtype}")
        if is_kernels_own(failure.node, failure.shape):
            lines.append(f"           {_KERNELS_OWN}")
    if failure.asked_bytes is not None:
        lines.append(f"asked for  {sized(failure.asked_bytes)} ({failure.asked_bytes} B)")
        lines += _sum_lines(failure.asked_bytes, failure.in_use_bytes, failure.device, devices)
    return [*lines, f"error      {failure.message}"]


def _sum_lines(
    asked: int, in_use: int | None, name: str | None, devices: Sequence[DeviceReport]
) -> list[str]:
    """What it would have come to, by the allocator's own figure; and if that was not too much."""
    limits = [each.limit_bytes for each in devices if name in (None, f"GPU:{each.index}")]
    if in_use is None or len(limits) != 1:
        return []
    needed, limit = in_use + asked, limits[0]
    lines = [f"in use     {sized(in_use)}; {sized(needed)} with that, of {sized(limit)}"]
    if needed <= limit:
        lines.append("           so enough was free, but fragmented: no piece was that large")
    return lines


def _device_table(devices: Sequence[DeviceReport]) -> Table:
    columns = ("", "may take", "peak in use", "headroom", "held on the card, with the context")
    rows: list[tuple[str, ...]] = []
    for device in devices:
        on = f" on card {device.card}" if device.card not in (None, device.index) else ""
        held = "unknown" if device.held_bytes is None else sized(device.held_bytes)
        rows.append(
            (
                f"GPU {device.index}{on}",
                sized(device.limit_bytes),
                sized(device.peak_bytes),
                sized(device.head_room_bytes),
                held,
            )
        )
    return Table(columns, rows)


def _row_table(device: DeviceReport) -> Table:
    shown = [row for row in device.rows[:_MOST_ROWS] if row.size_bytes >= _SMALLEST_ROW_BYTES]
    rest = device.rows[len(shown) :]
    *figures, rest_figure = mib_figures(
        [*(row.size_bytes for row in shown), sum(row.size_bytes for row in rest)]
    )
    rows = [(size, *_row_words(row)) for size, row in zip(figures, shown, strict=True)]
    if rest:
        pieces = sum(row.pieces for row in rest)
        rows.append((rest_figure, f"{pieces} smaller pieces", "", "", ""))
    return Table(("MiB", "what for", "layer", "operation", "shape"), rows)


def _row_words(row: Row) -> tuple[str, str, str, str]:
    op = _WORDS.get(row.op or "", row.op or "")
    if row.is_workspace:
        op += " (workspace)"
    shape = (row.shape or "").strip("[]").replace(",", " × ")
    if not shape:
        return row.what, row.layer or "", op, f"{row.pieces} pieces" if row.pieces > 1 else ""
    more = f" and {row.pieces - 1} more" if row.pieces > 1 else ""
    return row.what, row.layer or "", op, f"{shape}{more}"


def _notes(rehearsal: Rehearsal) -> list[str]:
    lines = list(rehearsal.notes)
    if rehearsal.survived:
        often = "once" if rehearsal.survived == 1 else f"{rehearsal.survived} times"
        lines.append(f"GPU memory ran out {often}; the script caught that and went on training")
    tape = rehearsal.first.tape
    if tape is not None and not tape.is_whole:
        lines.append("part of the memory trace was lost; the peak may have been higher")
    return lines
