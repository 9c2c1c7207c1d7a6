"""A rehearsal told: as lines for people, as plain data for programs.  Pure text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.rehearsal.breakdown import Names, Row, names_of, place_of
from gpuconf.rehearsal.devices import DeviceReport, tightest
from gpuconf.rehearsal.failure import Failure
from gpuconf.rehearsal.measuring import NOT_EVEN_ONE
from gpuconf.rehearsal.rehearse import Rehearsal
from gpuconf.rehearsal.runs import Orders
from gpuconf.rehearsal.suggestion import MARGIN, Suggestion
from gpuconf.units import GIB, MIB, exact_size, mib, parse_size

_MOST_ROWS = 8
_SMALLEST_ROW_BYTES = MIB // 20  # less would stand there as 0.0
# What TensorFlow calls what no line of a script names.
_WORDS = {
    "SameWorkerRecvDone": "copy between devices",
    "_EagerConst": "data and constants from Python",
    "ScratchBuffer": "scratch memory of the device",
}
CONTEXT_BYTES = 450 * MIB  # unless another is asked for; real ones take some 300 to 600 MB
REAL = "Real: TensorFlow, its GPU device code and its memory allocator, and your script."
SIMULATED = (
    "Simulated: the card, its driver and the CUDA context (a figure given, --context). Not in it:",
    "cuDNN's workspaces and XLA (jit functions run operation by operation). The peak on a real GPU",
    "may differ: it was not compared with one.",
)


class Section(NamedTuple):
    """A heading and its lines, or its table: columns first, then rows."""

    heading: str
    lines: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()


def title(rehearsal: Rehearsal) -> str:
    """The card and the program, in one line each."""
    spec, trainer = rehearsal.spec, rehearsal.first.trainer
    cards = "1 SIMULATED card" if spec.count == 1 else f"{spec.count} SIMULATED cards"
    of_each = "" if spec.count == 1 else " each"
    frameworks = [f"TensorFlow {trainer['tensorflow']}"] if "tensorflow" in trainer else []
    if "keras" in trainer:
        frameworks.append(" ".join(trainer["keras"]))
    batch = (trainer.get("batch") or {}).get("used")
    told = [
        *frameworks,
        *([f"profile {rehearsal.orders.profile}"] if rehearsal.orders.profile else []),
        *([f"batch {batch}"] if batch else []),
    ]
    return (
        f"{cards} of {mib(spec.total_bytes)}{of_each}, {mib(spec.used_bytes)} used by others, "
        f"{mib(spec.context_bytes)} for the CUDA context" + (f"\n{', '.join(told)}" if told else "")
    )


def headline(rehearsal: Rehearsal) -> str:
    """The verdict in a line."""
    verdict, device = rehearsal.verdict, tightest(rehearsal.devices)
    text = f"{verdict.answer}: {verdict.because}"
    if verdict.answer == "fits" and device is not None:
        share = 100 * device.peak_bytes / max(device.limit_bytes, 1)
        text += (
            f"; at the peak {_size(device.peak_bytes)} were in use, {share:.0f} % of the "
            f"{mib(device.limit_bytes)} that TensorFlow may take"
        )
    return text


def sections(rehearsal: Rehearsal) -> tuple[Section, ...]:
    """All that follows the headline."""
    found = []
    names = names_of(rehearsal.first.trainer)
    if rehearsal.verdict.failure is not None and rehearsal.verdict.answer == "does not fit":
        found.append(
            Section("What failed", tuple(_failure_lines(rehearsal.verdict.failure, names)))
        )
    if rehearsal.devices and _is_telling(rehearsal):
        found.append(Section("Memory", table=tuple(_device_table(rehearsal.devices))))
    device = tightest(rehearsal.devices)
    if device is not None and device.rows and _is_telling(rehearsal):
        which = f" of GPU {device.index}" if len(rehearsal.devices) > 1 else ""
        heading = f"What the {_size(device.peak_bytes)} at the peak{which} were"
        found.append(Section(heading, table=tuple(_row_table(device))))
    advice = _advice(rehearsal)
    if advice:
        found.append(Section("What would fit", tuple(advice)))
    if rehearsal.notes or rehearsal.survived:
        found.append(Section("Notes", tuple(_notes(rehearsal))))
    return tuple(found)


def _is_telling(rehearsal: Rehearsal) -> bool:
    """Whether the peak is one of a training: not of a script that failed before it began."""
    failure = rehearsal.verdict.failure
    is_oom = failure is not None and failure.kind == "gpu_memory"
    return is_oom or rehearsal.first.trainer.get("steps", 0) > 0


def as_document(rehearsal: Rehearsal) -> dict[str, object]:
    """The report as plain data for ``--json``; sizes in bytes, unknown is null."""
    verdict, trainer, spec = rehearsal.verdict, rehearsal.first.trainer, rehearsal.spec
    return {
        "simulated": True,
        "verdict": verdict.answer,
        "because": verdict.because,
        "hint": verdict.hint,
        "exit_code": verdict.exit_code,
        "command": list(rehearsal.command),
        "card": {
            "total_bytes": spec.total_bytes,
            "used_bytes": spec.used_bytes,
            "context_bytes": spec.context_bytes,
            "count": spec.count,
        },
        "profile": rehearsal.orders.profile,
        "tensorflow": trainer.get("tensorflow"),
        "keras": trainer.get("keras"),
        "steps": trainer.get("steps", 0),
        "script_exit_code": rehearsal.first.code,
        "batch": trainer.get("batch"),
        "failure": verdict.failure.as_dict() if verdict.failure else None,
        "survived_out_of_memory": rehearsal.survived,
        "gpus": [_device_document(device) for device in rehearsal.devices],
        "measurements": [point._asdict() for point in rehearsal.measurements],
        "suggestion": rehearsal.suggestion.as_dict() if rehearsal.suggestion else None,
        "notes": list(rehearsal.notes),
        "not_simulated": ["cuDNN workspaces", "XLA"],
    }


def _device_document(device: DeviceReport) -> dict[str, object]:
    return {
        "index": device.index,
        "card": device.card,
        "limit_bytes": device.limit_bytes,
        "peak_bytes": device.peak_bytes,
        "held_bytes": device.held_bytes,
        "head_room_bytes": device.head_room_bytes,
        "at_peak": [row.as_dict() for row in device.rows],
    }


def _failure_lines(failure: Failure, names: Names) -> list[str]:
    if failure.kind == "refused":
        return failure.message.splitlines()
    lines = []
    if failure.node is not None:
        lines.append(f"operation  {failure.node}")
        what, layer, _ = place_of(failure.node, names)
        if layer is not None:
            lines.append(f"layer      {layer} ({what})")
    if failure.shape is not None:
        shape = " × ".join(str(size) for size in failure.shape) or "a scalar"
        lines.append(f"tensor     {shape} of {failure.dtype}")
    if failure.asked_bytes is not None:
        lines.append(f"asked for  {_exact(failure.asked_bytes)}")
    return [*lines, f"error      {failure.message}"]


def _device_table(devices: Sequence[DeviceReport]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("", "may take", "peak in use", "head-room", "held on the card, with the context")
    ]
    for device in devices:
        on = f" on card {device.card}" if device.card not in (None, device.index) else ""
        held = "unknown" if device.held_bytes is None else mib(device.held_bytes)
        rows.append(
            (
                f"GPU {device.index}{on}",
                mib(device.limit_bytes),
                _size(device.peak_bytes),
                _size(device.head_room_bytes),
                held,
            )
        )
    return rows


def _row_table(device: DeviceReport) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [("MiB", "what for", "layer", "operation", "shape")]
    shown = [row for row in device.rows[:_MOST_ROWS] if row.size_bytes >= _SMALLEST_ROW_BYTES]
    table += [(_tenths(row.size_bytes), *_row_words(row)) for row in shown]
    rest = device.rows[len(shown) :]
    if rest:
        pieces = sum(row.pieces for row in rest)
        size = sum(row.size_bytes for row in rest)
        table.append((_tenths(size), f"{pieces} smaller pieces", "", "", ""))
    width = max(len(row[0]) for row in table)
    return [(row[0].rjust(width), *row[1:]) for row in table]


def _row_words(row: Row) -> tuple[str, str, str, str]:
    op = _WORDS.get(row.op or "", row.op or "")
    if row.is_workspace:
        op += " (workspace)"
    shape = (row.shape or "").strip("[]").replace(",", " × ")
    more = f" and {row.pieces - 1} more" if row.pieces > 1 else ""
    return row.what, row.layer or "", op, f"{shape}{more}" if shape else more.strip()


def _advice(rehearsal: Rehearsal) -> list[str]:
    """What to try; the suggestion is called what it is."""
    suggestion, lines = rehearsal.suggestion, []
    fits = rehearsal.verdict.answer == "fits"
    measured = ", ".join(
        f"batch {point.batch} → {_size(point.peak_bytes)}" for point in rehearsal.measurements
    )
    if measured:
        lines.append(f"measured   {measured}")
    if suggestion is not None and suggestion.batch is not None:
        lines += _batch_lines(rehearsal, suggestion, suggestion.batch)
    elif suggestion is not None:
        lines.append(f"batch      no suggestion: {suggestion.why_not}")
    elif fits:
        return []
    if rehearsal.verdict.answer == "does not fit":
        lines += _ways_out(rehearsal)
    return lines


def _batch_lines(rehearsal: Rehearsal, suggestion: Suggestion, batch: int) -> list[str]:
    most = "; the data has no more examples than that" if suggestion.is_all_data else ""
    if suggestion.measured_bytes is not None:
        peak = _size(suggestion.measured_bytes)
        return [f"batch      up to about {batch}, which was measured: {peak}{most}"]
    device = tightest(rehearsal.devices)
    at = suggestion.expected_bytes
    expected = f", where the line is at {_size(at)}{most}" if at else most
    room = f" of {mib(device.limit_bytes)}" if device is not None else ""
    return [
        f"batch      up to about {batch}{expected}{room}: an extrapolation from two points with a "
        f"margin of {MARGIN:.0%}, not a measurement",
        f"try it     {_command(rehearsal, batch)}",
    ]


def _ways_out(rehearsal: Rehearsal) -> list[str]:
    """Beside a smaller batch: another profile, data fed in pieces, or a larger card."""
    lines = []
    device, failure = tightest(rehearsal.devices), rehearsal.verdict.failure
    if failure is not None and failure.node == "_EagerConst":
        lines.append(
            "data       fit() copies a NumPy array to the GPU whole, at any batch size: give it a "
            "tf.data.Dataset or a generator"
        )
    spec = rehearsal.spec
    free = spec.total_bytes - spec.used_bytes - spec.context_bytes
    if device is not None and free - device.limit_bytes >= 256 * MIB:
        lines.append(
            f"limit      TensorFlow may take {mib(device.limit_bytes)} of the {mib(free)} that are "
            "left beside the context; a profile may allow more, such as --profile dedicated"
        )
    suggestion = rehearsal.suggestion
    if suggestion is not None and suggestion.why_not == NOT_EVEN_ONE:
        lines.append("card       too small for this model at any batch; try a larger --card")
    return lines


def _command(rehearsal: Rehearsal, batch: int) -> str:
    """The command that tries another batch; sizes and profile as given."""
    spec, orders = rehearsal.spec, rehearsal.orders
    words = [
        "gpuconf", "rehearse", "--card", _as_typed(spec.total_bytes),
        "--used", _as_typed(spec.used_bytes),
    ]  # fmt: skip
    if spec.count > 1:
        words += ["--count", str(spec.count)]
    if spec.context_bytes != CONTEXT_BYTES:
        words += ["--context", _as_typed(spec.context_bytes)]
    if orders.steps != Orders().steps:
        words += ["--steps", str(orders.steps)]
    if orders.profile is not None:
        words += ["--profile", orders.profile]
    return shlex.join([*words, "--batch", str(batch), "--", *rehearsal.command])


def _notes(rehearsal: Rehearsal) -> list[str]:
    lines = list(rehearsal.notes)
    if rehearsal.survived:
        often = "once" if rehearsal.survived == 1 else f"{rehearsal.survived} times"
        lines.append(f"GPU memory ran out {often}; the script caught that and went on training")
    tape = rehearsal.first.tape
    if tape is not None and not tape.is_whole:
        lines.append("part of the memory trace was lost; the peak may have been higher")
    return lines


def _as_typed(size_bytes: int) -> str:
    """A size as somebody would type it: ``1.2GiB``, though that is no whole number of KiB."""
    for decimals in range(1, 4):
        text = f"{size_bytes / GIB:.{decimals}f}GiB"
        if size_bytes % MIB and parse_size(text) == size_bytes:
            return text
    return exact_size(size_bytes)


def _size(size_bytes: int) -> str:
    """Whole MiB; a small amount with a decimal, so that it is not 0."""
    return mib(size_bytes) if size_bytes >= 100 * MIB else f"{_tenths(size_bytes)} MiB"


def _tenths(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.1f}"


def _exact(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.1f} MiB ({size_bytes} bytes)"
