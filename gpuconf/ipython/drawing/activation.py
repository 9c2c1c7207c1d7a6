"""An Activation for notebooks: the profile, each GPU's limit, and the result of every setting."""

from __future__ import annotations

from gpuconf.basics.setting import Setting
from gpuconf.ipython.drawing.plan import gpus_markup, profile_line
from gpuconf.session.activation import Activation
from gpuconf.support.reporting.html import (
    Markup,
    fragment,
    paragraph,
    preformatted,
    tag,
)

_STYLES = {"ok": "green", "pending": "dim", "differs": "bold yellow"}


def html_of(activation: Activation) -> str:
    """Show what gpuconf did to this process."""
    return fragment(*blocks_of(activation))


def text_of(activation: Activation) -> str:
    """The text that ``print`` shows."""
    return str(activation)


def blocks_of(activation: Activation) -> list[Markup]:
    """The profile, its plan, and a table of settings."""
    if activation.disabled is not None:
        return [paragraph(f"gpuconf is off: {activation.disabled}", "bold yellow")]
    plan = activation.plan
    blocks = [preformatted([profile_line(activation.profile or "", activation.source)])]
    if plan is None:
        blocks.append(paragraph("no plan yet: it is made when a framework is imported"))
    else:
        blocks += gpus_markup(plan, activation.settings, when="when planned")
        blocks += [paragraph(f"note: {note}", "dim") for note in plan.notes]
    if activation.settings:
        blocks.append(tag("table", *map(_row, activation.settings)))
    return blocks


def _row(setting: Setting) -> Markup:
    _, _, rest = str(setting).partition(": ")
    return tag(
        "tr",
        tag("td", setting.status, kind=_STYLES[setting.status]),
        tag("td", setting.name),
        tag("td", rest),
    )
