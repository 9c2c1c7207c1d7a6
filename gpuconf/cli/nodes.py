"""Shared by `gpuconf doctor --hosts` and `gpuconf ray doctor`: options sent, table shown."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.cli.output import Output
from gpuconf.doctor.examination import known_checks, selected
from gpuconf.nodes.document import NodesReport
from gpuconf.nodes.text import findings_lines, table_of


def doctor_words(checks: Sequence[str], profile: str | None) -> list[str]:
    """Return the options for each machine's doctor; raise UsageError for an unknown check."""
    selected(checks, known_checks())
    return [*checks, *([] if profile is None else ["--profile", profile])]


def show_nodes(report: NodesReport, output: Output, *, strict: bool) -> int:
    """Print the table and the findings, or one JSON document; return the exit code."""
    if output.as_json:
        output.document(report)
    else:
        output.table(table_of(report))
        output.lines(findings_lines(report))
    return report.exit_code(strict=strict)
