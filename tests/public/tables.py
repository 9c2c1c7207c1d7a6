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
    """The table, and what it adds up to."""
    found = {script: facts for script in scripts if (facts := facts_of(script, results))}
    lines = [
        "| script | true peak, MiB | fits on, MiB | does not fit on | estimated, MiB | error |",
        "|---|---:|---|---|---:|---:|",
        *(f"| {' | '.join(cells(script, facts))} |" for script, facts in found.items()),
        "",
        verdicts(found),
        *estimates(found),
    ]
    return "\n".join(lines)


def facts_of(script: Script, results: pathlib.Path) -> Facts:
    """What is kept about a script; nothing where it was not judged."""
    file = results / f"{script.name}.json"
    facts: Facts = json.loads(file.read_text()) if file.exists() else {}
    return facts


def cells(script: Script, facts: Facts) -> list[str]:
    """A script's row: the peak of its run to the end, both rehearsals, the estimate."""
    rehearsed = [shown_verdict(facts, side) for side in SIDES]
    guess, error = "", ""
    if is_estimated(script, facts):
        found = estimated(facts)
        guess, error = mib(found), "refused" if found is None else f"{error_of(facts):+.1%}"
    return [script.name, mib(facts["run"].get("peak_bytes")), *rehearsed, guess, error]


def verdicts(found: dict[Script, Facts]) -> str:
    """How many verdicts agree with the runs to the end."""
    judged = [
        (verdict(facts, side), right)
        for facts in found.values()
        for side, (_, right) in SIDES.items()
        if is_confirmed(facts, side)
    ]
    given = [(answer, right) for answer, right in judged if answer in ("fits", "does not fit")]
    wrong = sum(answer != right for answer, right in given)
    return (
        f"{len(given) - wrong} of {len(judged)} rehearsals had the correct verdict, "
        f"{wrong} a wrong one, {len(judged) - len(given)} none."
    )


def card(facts: Facts, side: str) -> str:
    """A GPU's size in MiB, and its part of the peak where that is not a quarter off."""
    if side not in facts:
        return ""
    factor = facts[side]["factor"]
    note = "" if factor in (1.25, 0.75) else f" (limit {factor} × the peak)"
    return f"{facts[side]['card_bytes'] // MIB}{note}"


def shown_verdict(facts: Facts, side: str) -> str:
    """The GPU, and the verdict in bold if the run to the end says otherwise."""
    size = card(facts, side)
    if "rehearse" not in facts or not is_confirmed(facts, side):
        return f"{size} (not judged)" if size else ""
    answer = verdict(facts, side)
    return size if answer == SIDES[side][1] else f"{size} **{answer}**"


def verdict(facts: Facts, side: str) -> str:
    """What rehearse answered."""
    document = facts.get("rehearse", {}).get(side, {}).get("document", {})
    answer: str = document.get("verdict", "no document")
    return answer


def is_confirmed(facts: Facts, side: str) -> bool:
    """Whether the run to the end ended as it should there, so that a verdict can be judged."""
    return "rehearse" in facts and facts.get(side, {}).get("ended") == SIDES[side][0]


def estimates(found: dict[Script, Facts]) -> list[str]:
    """How far the estimated peaks are from the measured ones."""
    asked = [facts for script, facts in found.items() if is_estimated(script, facts)]
    errors = [abs(error_of(facts)) for facts in asked if estimated(facts) is not None]
    return [f"{len(errors)} of {len(asked)} scripts addressed; {spread(errors)}"] if errors else []


def is_estimated(script: Script, facts: Facts) -> bool:
    """Whether `estimate` was given the script; notebooks it does not read."""
    return not script.is_notebook and "estimate" in facts


def error_of(facts: Facts) -> float:
    """By how much the estimate is off, as a share of the peak."""
    return float((estimated(facts) or 0) / facts["run"]["peak_bytes"] - 1)


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
