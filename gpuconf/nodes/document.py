"""What the doctors of many machines found, as plain values: the table and the JSON show this."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from gpuconf.json_shape import Count, FieldRule, json_shape

_LONGEST_QUOTE = 200
# A report has some six levels.
_DEEPEST = 40

Progress = Callable[[str], None]


class NodeReport(NamedTuple):
    """What the doctor said on a machine, or why it said nothing."""

    node: str
    """The machine, as hosts.txt or Ray names it."""
    problem: Annotated[str, FieldRule(min_length=1)] | None = None
    """Why there is no report."""
    report: dict[str, Any] | None = None
    """Its `gpuconf doctor --json`, as configs/doctor.schema.json of its own version says."""


@json_shape(computed=("silent_count", "failed_count", "warned_count"))
class NodesReport(NamedTuple):
    """What the doctor found on each machine, in the order asked."""

    nodes: tuple[NodeReport, ...]
    """The machines."""

    @property
    def silent_count(self) -> Count:
        """How many machines gave no report."""
        return sum(node.report is None for node in self.nodes)

    @property
    def failed_count(self) -> Count:
        """On how many machines a check failed."""
        return self._with("fail")

    @property
    def warned_count(self) -> Count:
        """On how many machines a check warned."""
        return self._with("warn")

    def _with(self, status: str) -> int:
        return sum(any(each["status"] == status for each in findings_of(n)) for n in self.nodes)

    def exit_code(self, *, strict: bool = False) -> int:
        """0 fine, 1 a check failed or a machine gave no report (with ``strict``, or warned).

        3 where a check crashed.
        """
        if self.silent_count or self.failed_count or (strict and self.warned_count):
            return 1
        return 3 if self._with("crash") else 0


def findings_of(node: NodeReport) -> list[dict[str, Any]]:
    """The findings of a machine; none where it gave no report."""
    return [] if node.report is None else node.report["findings"]


def node_report(node: str, stdout: str, stderr: str, exit_code: int) -> NodeReport:
    """What a doctor's output says: another machine's words, which may be anything."""
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
    """Refuse what JSON has no words for: it could not be written again."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _is_within(value: object, depth: int) -> bool:
    """Whether lists and dicts are nested no deeper, so that writing them cannot fail."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_within(each, depth - 1) for each in inner)


def quoted(text: str) -> str:
    """The last line that says something, cut where it is long."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return last if len(last) <= _LONGEST_QUOTE else f"{last[:_LONGEST_QUOTE]}…"
