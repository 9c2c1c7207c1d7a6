"""gpuconf's values in notebooks: the lines of the command's report, as HTML and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from gpuconf.support.reporting.html import folded, fragment, preformatted
from gpuconf.support.reporting.lines import Line
from gpuconf.support.reporting.memory_bars import BarLayout

if TYPE_CHECKING:  # what is drawn is imported when it is there
    from gpuconf.commands.doctor.report import Report
    from gpuconf.commands.estimate.budget import Budget
    from gpuconf.commands.estimate.memory_estimate import MemoryEstimate
    from gpuconf.commands.explain import Diagnosis
    from gpuconf.commands.ps.document import Holdings
    from gpuconf.planner import Plan
    from gpuconf.session.activation import Activation


class Drawing(NamedTuple):
    """A report: what is shown at first, and the full report, which is shown on a click."""

    lines: tuple[Line, ...]
    every_line: tuple[Line, ...] = ()

    @property
    def html(self) -> str:
        """An escaped fragment that loads nothing."""
        whole = folded("everything", preformatted(self.every_line)) if self.every_line else ""
        return fragment(preformatted(self.lines), whole)

    @property
    def text(self) -> str:
        """The lines, as the command prints them to a file."""
        return "\n".join(line.text for line in self.lines)


def drawing(lines: Iterable[Line], every_line: Iterable[Line] = ()) -> Drawing:
    """The drawing of a report; without ``every_line`` if the first lines are all there is."""
    first, whole = tuple(lines), tuple(every_line)
    return Drawing(first, whole if whole != first else ())


def of_activation(activation: Activation) -> Drawing:
    """What gpuconf did to this process."""
    return drawing(map(Line, str(activation).splitlines()))


def of_plan(plan: Plan) -> Drawing:
    """A plan, not necessarily active, with its notes."""
    from gpuconf.commands.cli.plan import notes_of, report_lines
    from gpuconf.session.environment import environment_for

    changes, settings = environment_for(plan.profile, plan)
    notes = (Line(f"note: {note}") for note in notes_of(plan, settings))
    return drawing([*report_lines(plan, changes, settings), *notes])


def of_diagnosis(diagnosis: Diagnosis, source: str | None = "") -> Drawing:
    """Why a run failed; ``source`` None leaves out the line numbers, as for an exception."""
    from gpuconf.commands.explain.text import styled_lines

    short, whole = (styled_lines(diagnosis, source=source, verbose=each) for each in (False, True))
    return drawing(short, whole)


def of_estimate(estimate: MemoryEstimate, budget: Budget | None = None) -> Drawing:
    """What a model needs; ``budget`` says where the limit comes from."""
    from gpuconf.commands.estimate.text import report

    short, whole = (report(estimate, budget=budget, verbose=each) for each in (False, True))
    return drawing(short, whole)


def of_holdings(holdings: Holdings) -> Drawing:
    """Who holds how much memory on each GPU."""
    from gpuconf.commands.ps.text import lines_of

    return drawing(lines_of(holdings, BarLayout()))


def of_report(report: Report) -> Drawing:
    """What the doctor found."""
    from gpuconf.commands.doctor.text import TextLayout, lines_of

    short, whole = (TextLayout(verbose=each, ipython=True) for each in (False, True))
    return drawing(lines_of(report, short), lines_of(report, whole))


# By the names of the types, which are not imported for it.
BY_TYPE: dict[str, Callable[..., Drawing]] = {
    "Activation": of_activation,
    "Plan": of_plan,
    "Diagnosis": of_diagnosis,
    "MemoryEstimate": of_estimate,
    "Holdings": of_holdings,
    "Report": of_report,
}
