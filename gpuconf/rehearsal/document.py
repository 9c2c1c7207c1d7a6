"""A rehearsal as plain data, for ``--json``.  docs/rehearse.md lists the fields."""

from __future__ import annotations

import re

from gpuconf.rehearsal.breakdown import Row
from gpuconf.rehearsal.devices import DeviceReport
from gpuconf.rehearsal.rehearse import Rehearsal


def as_document(rehearsal: Rehearsal) -> dict[str, object]:
    """The report as plain data for ``--json``; sizes in bytes, unknown is null."""
    verdict, trainer, spec = rehearsal.verdict, rehearsal.first.trainer, rehearsal.spec
    return {
        "simulated": True,
        "verdict": verdict.answer,
        "because": verdict.because,
        "hint": verdict.hint,
        "exit_code": rehearsal.exit_code,
        "interrupted": rehearsal.interrupted is not None,
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
        "profiles": [each._asdict() for each in rehearsal.allowances],
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
        "at_peak": [_row_document(row) for row in device.rows],
    }


def _row_document(row: Row) -> dict[str, object]:
    """A shape as a list of numbers; TensorFlow's trace has it as the text ``[128,25,25,144]``."""
    shape = None if row.shape is None else [int(size) for size in re.findall("[0-9]+", row.shape)]
    return {**row.as_dict(), "shape": shape}
