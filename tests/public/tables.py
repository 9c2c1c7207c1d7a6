"""The judge's results as Markdown."""

from __future__ import annotations

import json
import pathlib
import statistics
from typing import Any

from tests.public.listing import Script

MIB = 1 << 20
SIDES = {"above": ("well", "fits"), "below": ("out of memory", "does not fit")}
"""How a run to the end ends on each GPU, and the verdict that this confirms."""
Facts = dict[str, Any]


def summary(facts: Facts) -> str:
    """One line about a script, for the terminal."""
    run = facts.get("run", {})
    parts = [f"{run.get('ended')}, peak {mib(run.get('peak_bytes'))} in {run.get('seconds')} s"]
    for side in SIDES:
        if side in facts:
            parts.append(f"{side}: {facts[side]['factor']} {facts[side]['ended']}")
        if "rehearse" in facts:
            parts.append(f"rehearse: {verdict(facts, side)}")
    if "estimate" in facts:
        parts.append(f"estimate: {mib(estimated(facts))}")
    return "; ".join(parts)


def report(scripts: list[Script], results: pathlib.Path) -> str:
    """Both tables, and what they add up to."""
    found = {script: facts for script in scripts if (facts := facts_of(script, results))}
    return "\n\n".join([rehearsals(found), estimates(found)])


def facts_of(script: Script, results: pathlib.Path) -> Facts:
    """What is kept about a script; nothing where it was not judged."""
    file = results / f"{script.name}.json"
    facts: Facts = json.loads(file.read_text()) if file.exists() else {}
    return facts


def rehearsals(found: dict[Script, Facts]) -> str:
    """Verdicts beside runs to the end."""
    lines = [
        "| script | how it trains | true peak, MiB | GPU above | verdict | GPU below | verdict |",
        "|---|---|---:|---:|---|---:|---|",
    ]
    for script, facts in found.items():
        cells = [script.name, script.shape, mib(facts["run"].get("peak_bytes"))]
        for side in SIDES:
            cells += [card(facts, side), shown_verdict(facts, side)]
        lines.append(f"| {' | '.join(cells)} |")
    judged = [
        (verdict(facts, side), right)
        for facts in found.values()
        for side, (_, right) in SIDES.items()
        if is_confirmed(facts, side)
    ]
    verdicts = [(answer, right) for answer, right in judged if answer in ("fits", "does not fit")]
    wrong = sum(answer != right for answer, right in verdicts)
    lines += [
        "",
        f"{len(verdicts) - wrong} of {len(judged)} rehearsals had the correct verdict, "
        f"{wrong} a wrong one, {len(judged) - len(verdicts)} none.",
    ]
    return "\n".join(lines)


def card(facts: Facts, side: str) -> str:
    """A GPU's size in MiB, and its part of the peak where that is not a quarter off."""
    if side not in facts:
        return ""
    factor = facts[side]["factor"]
    note = "" if factor in (1.25, 0.75) else f" (limit {factor} × the peak)"
    return f"{facts[side]['card_bytes'] // MIB}{note}"


def shown_verdict(facts: Facts, side: str) -> str:
    """A verdict, in bold where the run to the end says otherwise."""
    if "rehearse" not in facts or not is_confirmed(facts, side):
        return ""
    answer = verdict(facts, side)
    return answer if answer == SIDES[side][1] else f"**{answer}**"


def verdict(facts: Facts, side: str) -> str:
    """What rehearse answered."""
    document = facts.get("rehearse", {}).get(side, {}).get("document", {})
    answer: str = document.get("verdict", "no document")
    return answer


def is_confirmed(facts: Facts, side: str) -> bool:
    """Whether the run to the end ended as it should there, so that a verdict can be judged."""
    return "rehearse" in facts and facts.get(side, {}).get("ended") == SIDES[side][0]


def estimates(found: dict[Script, Facts]) -> str:
    """Estimated peaks beside measured ones."""
    lines = ["| script | true peak, MiB | estimated, MiB | error |", "|---|---:|---:|---:|"]
    errors: list[float] = []
    asked = 0
    for script, facts in found.items():
        if script.is_notebook or "estimate" not in facts:
            continue
        asked += 1
        peak, guess = facts["run"]["peak_bytes"], estimated(facts)
        error = "not addressed" if guess is None else f"{guess / peak - 1:+.1%}"
        lines.append(f"| {script.name} | {mib(peak)} | {mib(guess)} | {error} |")
        errors += [] if guess is None else [abs(guess / peak - 1)]
    if errors:
        lines += ["", f"{len(errors)} of {asked} scripts addressed; {spread(errors)}"]
    return "\n".join(lines)


def spread(errors: list[float]) -> str:
    """Median, 95th percentile and the largest of absolute errors."""
    ordered = sorted(errors)
    p95 = ordered[round(0.95 * (len(ordered) - 1))]
    median = statistics.median(ordered)
    return f"error: median {median:.1%}, p95 {p95:.1%}, largest {ordered[-1]:.1%}."


def estimated(facts: Facts) -> int | None:
    """The peak that `estimate` gave; None where it gave none."""
    peak: int | None = facts["estimate"].get("document", {}).get("peak_bytes")
    return peak


def mib(size: int | None) -> str:
    """A size in MiB, with a decimal below 100."""
    if size is None:
        return "–"
    return f"{size / MIB:.1f}" if size < 100 * MIB else f"{size / MIB:.0f}"
