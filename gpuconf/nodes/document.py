"""What the doctors of many machines found, as plain values for the table and the JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from gpuconf.json_shape import Count, FieldRule, json_shape

_LONGEST_QUOTE = 200
# A report has about six levels.
_DEEPEST = 40

Progress = Callable[[str], None]


class NodeReport(NamedTuple):
    """The doctor's report from one machine, or why there is none."""

    node: str
    """The machine's name in hosts.txt or in Ray."""
    problem: Annotated[str, FieldRule(min_length=1)] | None = None
    """Why there is no report."""
    report: dict[str, Any] | None = None
    """Its `gpuconf doctor --json` output, as in configs/doctor.schema.json of its version."""


@json_shape(computed=("silent_count", "failed_count", "warned_count"))
class NodesReport(NamedTuple):
    """The doctor's findings on each machine, in the order requested."""

    nodes: tuple[NodeReport, ...]
    """The machines."""

    @property
    def silent_count(self) -> Count:
        """The number of machines without a report."""
        return sum(node.report is None for node in self.nodes)

    @property
    def failed_count(self) -> Count:
        """The number of machines on which a check failed."""
        return self._with("fail")

    @property
    def warned_count(self) -> Count:
        """The number of machines on which a check warned."""
        return self._with("warn")

    def _with(self, status: str) -> int:
        return sum(any(each["status"] == status for each in findings_of(n)) for n in self.nodes)

    def exit_code(self, *, strict: bool = False) -> int:
        """Return 0 if fine, 1 if a check failed or a report is missing (with ``strict``, or a
        warning).

        3 if a check crashed.
        """
        if self.silent_count or self.failed_count or (strict and self.warned_count):
            return 1
        return 3 if self._with("crash") else 0


def findings_of(node: NodeReport) -> list[dict[str, Any]]:
    """Return the findings of a machine; empty if it has no report."""
    return [] if node.report is None else node.report["findings"]


def node_report(node: str, stdout: str, stderr: str, exit_code: int) -> NodeReport:
    """Parse a doctor's output; it comes from another machine and may be anything."""
    try:
        document = json.loads(stdout, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        document = None
    if _is_report(document) and _is_within(document, _DEEPEST):
        return NodeReport(node, report=document)
    refusal = document.get("error") if isinstance(document, dict) else None
    if isinstance(refusal, dict) and isinstance(refusal.get("message"), str):
        return NodeReport(node, quoted(refusal["message"]) or "refused")
    said = quoted(stderr) or quoted(stdout) or "it said nothing"
    return NodeReport(node, f"exit code {exit_code}: {said}")


def _is_report(document: object) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("findings"), list):
        return False
    texts = ("id", "status", "summary")
    return all(
        isinstance(each, dict)
        and all(isinstance(each.get(name), str) for name in texts)
        and isinstance(each.get("fix"), str | None)
        for each in document["findings"]
    )


def _finite(text: str) -> float:
    """Reject numbers that JSON cannot represent, since they could not be written again."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _is_within(value: object, depth: int) -> bool:
    """Whether lists and dicts are nested at most this deep, so that writing them cannot fail."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_within(each, depth - 1) for each in inner)


def quoted(text: str) -> str:
    """Return the last non-empty line, truncated if it is long."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return last if len(last) <= _LONGEST_QUOTE else f"{last[:_LONGEST_QUOTE]}…"
