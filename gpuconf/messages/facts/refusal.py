"""Which of several refusals a report is about, and what was asked for in that one.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuconf.messages.causes import NOT_GPU
from gpuconf.messages.facts.dump import Dump
from gpuconf.messages.facts.tensor import Request, request_in


def request_of(cause: str, lines: list[str], texts: list[str], dump: Dump | None) -> Request:
    """What the cause's own lines, those below them, or the dump say was asked for."""
    if cause == NOT_GPU:
        return Request()
    if cause == "oom-device-startup":  # the region, not what a later operation asked for
        return _filled(Request(), map(request_in, lines))._replace(tensor=None, node=None)
    asked = None if dump is None else dump.requested_bytes
    told = _one_refusal(
        [*map(request_in, reversed(lines)), *map(request_in, reversed(texts))], asked
    )
    return told if told.size_bytes is not None else told._replace(size_bytes=asked)


def _one_refusal(told: list[Request], asked: int | None) -> Request:
    """Of several refusals the last, of which the dump is; what is missing, from its other lines."""
    sized = [each for each in told if each.size_bytes is not None]
    of_dump = [each for each in sized if asked is None or _is_about(each.size_bytes, asked)]
    with_tensor = [each for each in of_dump if each.tensor is not None]
    base = next(iter([*with_tensor, *of_dump]), None)
    if base is None:
        base = Request(size_bytes=asked)
    same = [each for each in sized if _is_about(each.size_bytes, base.size_bytes or 0)]
    return _filled(base, [*same, *(each for each in told if each.size_bytes is None)])


def _is_about(size: int | None, other: int) -> bool:
    """Whether two figures are of one request: the allocator rounds, and messages do."""
    return size is not None and abs(size - other) <= max(other // 8, 4096)


def _filled(base: Request, others: Iterable[Request]) -> Request:
    for other in others:
        told = other._asdict()
        base = base._replace(
            **{name: told[name] for name, known in base._asdict().items() if known is None}
        )
    return base
