"""``gpuconf rehearse``: a rehearsal as lines and tables in plain text.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.rehearse.advice import advice
from gpuconf.commands.rehearse.breakdown import (
    DeviceReport,
    ProgramNames,
    is_compiled_call,
    is_kernels_own,
    names_of,
    place_of,
    tightest,
)
from gpuconf.commands.rehearse.cells import cell_table, cells_of
from gpuconf.commands.rehearse.phases import growing, phases_of, what_ran
from gpuconf.commands.rehearse.rehearse import Rehearsal
from gpuconf.commands.rehearse.tables import device_table, phase_table, row_table
from gpuconf.commands.rehearse.target import free_bytes, reserve_bytes
from gpuconf.simcard import CardSpec
from gpuconf.support.failures.failure import Failure
from gpuconf.support.reporting.lines import Line, Table

_LABEL = re.compile(r" {11}|\w[\w ]{0,9}  +")
_MOST_FILES = 4
_KERNELS_OWN = (
    "scratch memory of TensorFlow's CPU kernel, which computes here; on a GPU cuDNN takes a "
    "separate workspace instead, as large as it finds room for"
)
_SIMULATED = "Simulated: the GPU, its driver and the CUDA context (as large as --context says)."
_COMPILED = (
    "What XLA compiles takes the memory that XLA has assigned for this GPU; its numbers are "
    "computed on the CPU, in host memory. Not included: cuDNN's workspaces, and what the first "
    "step takes while XLA tries algorithms."
)
_OP_BY_OP = "Not included: cuDNN's workspaces and XLA (jit functions run operation by operation)."
_THE_BLOCK = "the block of memory for a whole compiled step, activations and temporaries"
_NOT_COMPARED = "The peak on a real GPU may differ: it was not compared with one."


class ReportSection(NamedTuple):
    """A heading, its lines, and its table, if any."""

    heading: str
    lines: tuple[str, ...] = ()
    table: Table | None = None


def lines_of(section: ReportSection) -> Iterator[Line]:
    """The section's lines, indented; continuation lines align with the text, not with its label."""
    for text in section.lines:
        label = _LABEL.match(text)
        yield Line(f"  {text}", hang=2 + (len(label[0]) if label else 2))


def title(rehearsal: Rehearsal) -> str:
    """The GPU and the program, on one line each."""
    spec, trainer = rehearsal.spec, rehearsal.first.trainer
    cards = "1 SIMULATED GPU" if spec.count == 1 else f"{spec.count} SIMULATED GPUs"
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
    """Which parts were real, and which were not."""
    real = "Real: TensorFlow, its GPU device code and its memory allocator,{} and your script."
    if rehearsal.xla is None:
        return real.format(""), f"{_SIMULATED} {_OP_BY_OP} {_NOT_COMPARED}"
    libdevice = "" if rehearsal.xla.is_from_wheel else f" libdevice is {rehearsal.xla.libdevice}."
    return real.format(" its XLA,"), f"{_SIMULATED} {_COMPILED} {_NOT_COMPARED}{libdevice}"


def _way(rehearsal: Rehearsal) -> list[str]:
    """Whether the training runs were compiled, as far as Keras decides that."""
    is_compiled = (rehearsal.first.trainer.get("model") or {}).get("is_compiled")
    if is_compiled is None:
        return []
    return ["compiled by XLA" if is_compiled and rehearsal.xla is not None else "without XLA"]


def headline(rehearsal: Rehearsal) -> str:
    """The verdict in one line."""
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
    """Warnings about a script that fits."""
    return growing(phases_of(rehearsal.first)) if rehearsal.verdict.answer == "fits" else []


def sections(rehearsal: Rehearsal) -> tuple[ReportSection, ...]:
    """The results of the first run, below the headline."""
    found = []
    names = names_of(rehearsal.first.trainer)
    failure, device = rehearsal.verdict.failure, tightest(rehearsal.devices)
    if failure is not None and rehearsal.verdict.answer == "does not fit":
        lines = _failure_lines(failure, names, rehearsal.devices)
        found.append(ReportSection("what failed", tuple(lines)))
    ran = phases_of(rehearsal.first)
    if table := phase_table(ran, _sign(rehearsal)):
        found.append(ReportSection("what ran", table=table))
    if table := cell_table(cells_of(rehearsal.first)):
        found.append(ReportSection("cells", table=table))
    if device is not None and _shows_training(rehearsal):
        sums = _limit_sum(rehearsal.spec, device.limit_bytes)
        found.append(ReportSection("memory", sums, device_table(rehearsal.devices)))
    if device is not None and device.rows and _shows_training(rehearsal):
        which = f" of GPU {device.index}" if len(rehearsal.devices) > 1 else ""
        heading = f"what took the {sized(device.peak_bytes)} at the peak{which}"
        found.append(ReportSection(heading, table=row_table(device)))
    if left_out := tuple(_left_out(rehearsal.first.trainer)):
        found.append(ReportSection("what did not run", left_out))
    if rehearsal.notes or rehearsal.survived:
        found.append(ReportSection("notes", tuple(_notes(rehearsal))))
    return tuple(found)


def advice_section(rehearsal: Rehearsal) -> tuple[ReportSection, ...]:
    """What would fit, possibly found by further runs."""
    lines = advice(rehearsal)
    return (ReportSection("what would fit", tuple(lines)),) if lines else ()


def _sign(rehearsal: Rehearsal) -> str:
    """The symbol for an error in a phase."""
    out = rehearsal.survived or rehearsal.verdict.answer == "does not fit"
    return "memory ran out" if out else "failed"


def _left_out(trainer: Mapping[str, Any]) -> Iterator[str]:
    """The parts that did not run, and the files that were not written."""
    for each in trainer.get("not_run", ()):
        at = f" at {each['where']}" if each.get("where") else ""
        why = f": {each['why']}" if each.get("why") else ""
        yield f"{each.get('what')}{at}{why}"
    files = [str(name) for name in trainer.get("diverted", ())]
    if files:
        more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
        yield f"not written: {', '.join(files[:_MOST_FILES])}{more}; these files are unchanged"


def _shows_training(rehearsal: Rehearsal) -> bool:
    """Whether the peak is from a training run, not from a script that failed before training."""
    failure = rehearsal.verdict.failure
    is_oom = failure is not None and failure.kind == "gpu_memory"
    return is_oom or what_ran(phases_of(rehearsal.first)) is not None or _has_steps(rehearsal)


def _has_steps(rehearsal: Rehearsal) -> bool:
    return int(rehearsal.first.trainer.get("steps", 0)) > 0


def _limit_sum(spec: CardSpec, limit_bytes: int) -> tuple[str, ...]:
    """The arithmetic behind the limit, as far as it is known."""
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
        # Its hint concerns a GPU of this machine; the advice below has the useful one.
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
        lines.append(f"requested  {sized(failure.asked_bytes)} ({failure.asked_bytes} B)")
        lines += _sum_lines(failure.asked_bytes, failure.in_use_bytes, failure.device, devices)
    return [*lines, f"error      {failure.message}"]


def _sum_lines(
    asked: int, in_use: int | None, name: str | None, devices: Sequence[DeviceReport]
) -> list[str]:
    """The total with the failed request, by the allocator's figures, and any fragmentation."""
    limits = [each.limit_bytes for each in devices if name in (None, f"GPU:{each.index}")]
    if in_use is None or len(limits) != 1:
        return []
    needed, limit = in_use + asked, limits[0]
    lines = [f"in use     {sized(in_use)}; {sized(needed)} with that, of {sized(limit)}"]
    if needed <= limit:
        lines.append("           so enough was free, but fragmented: no free block was that large")
    return lines


def _notes(rehearsal: Rehearsal) -> list[str]:
    lines = list(rehearsal.notes)
    if rehearsal.survived:
        often = "once" if rehearsal.survived == 1 else f"{rehearsal.survived} times"
        lines.append(f"GPU memory ran out {often}; the script caught that and continued training")
    tape = rehearsal.first.tape
    if tape is not None and not tape.is_whole:
        lines.append("part of the memory trace was lost; the peak may have been higher")
    return lines
