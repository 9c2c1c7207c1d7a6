"""The doctors' reports as lines: a row per machine, then what is wrong, and where.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gpuconf.nodes.document import NodeReport, NodesReport, findings_of
from gpuconf.reporting.lines import Line, Table

_STYLES = {"fail": "bold red", "warn": "yellow", "crash": "bold magenta"}
_FRAMEWORKS = ("tensorflow", "keras", "torch", "jax")
# These may differ between machines without harm.
_MAY_DIFFER = ("system", "inside", "Python's path")
_NONE = "-"
_NAMED = 8


def table_of(report: NodesReport) -> Table:
    """Build a row for each machine: its result, cards and versions."""
    frameworks = [
        name for name in _FRAMEWORKS if any(name in _versions(node) for node in report.nodes)
    ]
    columns = ("NODE", "GPUS", "GPUCONF", "DRIVER", *map(str.upper, frameworks), "RESULT")
    rows = [
        (
            node.node,
            _cards(node),
            *(_versions(node).get(name, _NONE) for name in ("gpuconf", "driver", *frameworks)),
            _result(node),
        )
        for node in report.nodes
    ]
    return Table(columns, rows)


def findings_lines(report: NodesReport) -> Iterator[Line]:
    """Yield each finding once, with the machines that have it; then the versions that differ."""
    places: dict[tuple[str, str, str, str | None], list[str]] = {}
    for status in _STYLES:
        for node in report.nodes:
            for each in findings_of(node):
                if each["status"] == status:
                    found = (status, each["id"], each["summary"], each.get("fix"))
                    places.setdefault(found, []).append(node.node)
    for (status, name, summary, fix), nodes in places.items():
        yield Line()
        yield Line(f"{status:<5} {name}: {summary}", _STYLES[status], 6)
        yield Line(f"      on {_listed(nodes)}", hang=9)
        if fix is not None:
            yield from (Line(f"      {line}", "green", 8) for line in fix.splitlines())
    differing = list(_differing(report))
    if differing:
        yield Line()
        yield from differing


def _differing(report: NodesReport) -> Iterator[Line]:
    """Yield version differences, which break programs that run on several machines."""
    answered = [node for node in report.nodes if node.report is not None]
    for name in dict.fromkeys(name for node in answered for name in _versions(node)):
        by_version: dict[str, list[str]] = {}
        for node in answered:
            by_version.setdefault(_versions(node).get(name, "none"), []).append(node.node)
        if len(by_version) > 1 and name not in _MAY_DIFFER:
            texts = (f"{version} on {_listed(nodes)}" for version, nodes in by_version.items())
            yield Line(f"{name} differs: {'; '.join(texts)}", "yellow", 2)


def _listed(nodes: list[str]) -> str:
    rest = len(nodes) - _NAMED
    return ", ".join([*nodes[:_NAMED], *([f"and {rest} more"] if rest > 0 else [])])


def _result(node: NodeReport) -> str:
    if node.problem is not None:
        return f"no report: {node.problem}"
    found = Counter(each["status"] for each in findings_of(node))
    words = {"fail": "failed", "warn": "warned", "crash": "crashed"}
    parts = [f"{found[status]} {word}" for status, word in words.items() if found[status]]
    return ", ".join(parts) or "fine"


def _versions(node: NodeReport) -> Mapping[str, str]:
    """Return its versions; they come from another machine, so only strings are kept."""
    return _texts(node.report.get("versions") if node.report else None)


def _texts(found: Any) -> dict[str, str]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: text for name, text in pairs if isinstance(text, str)}


def _cards(node: NodeReport) -> str:
    """Return, for example, "2 × RTX 3060"."""
    gpus = node.report.get("gpus") if node.report else None
    names = Counter(
        str(gpu.get("name") or "unknown").removeprefix("NVIDIA ")
        for gpu in (gpus if isinstance(gpus, list) else ())
        if isinstance(gpu, dict)
    )
    return ", ".join(f"{count} × {name}" for name, count in names.items()) or _NONE
