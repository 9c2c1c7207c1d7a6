"""A Plan for notebooks: each GPU as a bar, the sum of its limit, and the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuconf.basics.setting import Setting
from gpuconf.commands.cli.plan import (
    environment_lines,
    gpu_lines,
    notes_of,
    report_lines,
    rule_lines,
)
from gpuconf.planner import GpuPlan, Plan
from gpuconf.session.environment import environment_for
from gpuconf.support.reporting.html import (
    BarPart,
    Markup,
    bar,
    folded,
    fragment,
    paragraph,
    preformatted,
)
from gpuconf.support.reporting.lines import Line, line_of


def html_of(plan: Plan) -> str:
    """A plan that is not necessarily in force."""
    changes, settings = environment_for(plan.profile, plan)
    return fragment(
        preformatted([profile_line(plan.profile.name, plan.profile.source)]),
        *gpus_markup(plan, settings),
        *(paragraph(f"note: {note}", "dim") for note in notes_of(plan, settings)),
        folded("environment", preformatted(environment_lines(changes))),
    )


def text_of(plan: Plan) -> str:
    """The text that `gpuconf plan` prints, with its notes."""
    changes, settings = environment_for(plan.profile, plan)
    lines = [line.text for line in report_lines(plan, changes, settings)]
    return "\n".join([*lines, *(f"note: {note}" for note in notes_of(plan, settings))])


def profile_line(name: str, source: str | None) -> Line:
    """The profile's name and file."""
    return line_of((f"profile {name}", "bold"), (f"  {source}" if source else "", "dim"))


def gpus_markup(plan: Plan, settings: Sequence[Setting], *, when: str = "now") -> Iterator[Markup]:
    """Each GPU visible to a program; ``when`` says when its figures were read."""
    for gpu in plan.gpus:
        title, *lines = gpu_lines(gpu, list(settings), when=when)
        yield preformatted([title])
        parts = bar_parts(gpu)
        if parts:
            yield bar(parts)
        yield preformatted(lines)
    if plan.unknown_gpu is not None:
        title = Line("any GPU a framework finds", "bold")
        yield preformatted([title, *rule_lines(plan.unknown_gpu, list(settings))])
    if plan.hides_gpus:
        yield paragraph("no GPU: frameworks run on the CPU", "bold")


def bar_parts(plan: GpuPlan) -> list[BarPart]:
    """A card's memory when the plan was made; empty if its figures are unknown."""
    total, free = plan.gpu.total_bytes, plan.gpu.free_bytes
    if total is None or free is None:
        return []
    promised = min(plan.gpu.promised_bytes, free)
    rest = free - promised
    limit = min(plan.limit_bytes or 0, rest)
    context = min(max((plan.lease_bytes or limit) - limit, 0), rest - limit)
    return [
        BarPart("in use", total - free, "others"),
        BarPart("leased by others", promised, "leased"),
        BarPart("limit", limit, "ours"),
        BarPart("context", context, "context"),
        BarPart("left free", rest - limit - context, "room"),
    ]
