"""A Diagnosis as plain data, for ``gpuconf explain --json``: configs/explain.schema.json."""

from __future__ import annotations

from typing import Any

from gpuconf.diagnosis.diagnosis import Diagnosis
from gpuconf.messages.facts.allocations import Allocations
from gpuconf.messages.facts.dump import Dump
from gpuconf.messages.facts.tensor import Request
from gpuconf.messages.reading import Evidence, Facts


def as_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Everything that was found, sizes in bytes, unknown as null."""
    return {
        "cause": diagnosis.cause,
        "severity": diagnosis.severity,
        "also": list(diagnosis.also),
        "title": diagnosis.title,
        "evidence": [_evidence(each) for each in diagnosis.evidence],
        "consequences": [_evidence(each) for each in diagnosis.consequences],
        "notes": [_evidence(each) for each in diagnosis.notes],
        "facts": _facts(diagnosis.facts),
        "proposals": [each._asdict() for each in diagnosis.proposals],
        "line_count": diagnosis.line_count,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return evidence._asdict()


def _facts(facts: Facts) -> dict[str, Any]:
    card, code = facts.card, facts.user_code
    return {
        "request": _request(facts.request),
        "card": None
        if card is None
        else {**card._asdict(), "holders": [holder._asdict() for holder in card.holders]},
        "dump": None if facts.dump is None else _dump(facts.dump),
        "allocations": None if facts.allocations is None else _allocations(facts.allocations),
        "batch_size": facts.batch_size,
        "user_code": None if code is None else code._asdict(),
        "exception": facts.exception,
        "cut_off": facts.cut_off,
        "framework": facts.framework,
        "on_windows": facts.on_windows,
        "versions": facts.versions,
        "details": facts.details,
    }


def _request(request: Request) -> dict[str, Any]:
    tensor = request.tensor
    shown = None if tensor is None else {**tensor._asdict(), "shape": list(tensor.shape)}
    return {**request._asdict(), "tensor": shown, "likely_batch": request.likely_batch}


def _dump(dump: Dump) -> dict[str, Any]:
    free = dump.free_chunks
    return {
        **dump._asdict(),
        "in_use": [chunks._asdict() for chunks in dump.in_use],
        "free_chunks": None if free is None else list(free),
        "by_operation": [
            {"operation": name, "size_bytes": size} for name, size in dump.by_operation
        ],
        "free_bytes": dump.free_bytes,
        "largest_free_bytes": dump.largest_free_bytes,
        "is_fragmented": dump.is_fragmented,
    }


def _allocations(table: Allocations) -> dict[str, Any]:
    return {
        "device": table.device,
        "allocator": table.allocator,
        "total_bytes": table.total_bytes,
        "rest_bytes": table.rest_bytes,
        "layers": [
            {
                "name": layer.name,
                "size_bytes": layer.size_bytes,
                "nodes": [node._asdict() for node in layer.nodes],
            }
            for layer in table.layers()
        ],
    }
