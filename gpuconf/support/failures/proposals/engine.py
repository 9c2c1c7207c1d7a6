"""Which changes in ``changes/*.yaml`` a log's facts call for.

A file maps names to a change or to a list; a cause's list has the cause's id.  An item of a list is

- a change: ``title``, ``reason``, ``kind`` (see `Proposal`), ``paste``.  ``run`` has the options of
  `gpuconf run` for a stack that is too old for gpuconf in the script;
- the same with ``each: xid``, once for each Xid whose meaning is known;
- ``use``: the change or list with that name, of any file; texts next to it replace those of the
  change, ``most`` cuts the list;
- ``first``: groups of ``when`` and ``changes``, of which the first that holds is taken;
- ``otherwise``: a list for the case that nothing was proposed before it.

``when`` is a list of conditions that must all hold: a name from `questions.QUESTIONS`, or a value
from `questions.VALUES` such as ``detail signal``; each may begin with ``not``, and ``or`` joins
several. ``{name}`` in a text is a figure from `figures.FIGURES`, and ``{detail:name}`` a detail
from the facts. ``place: 2`` puts a change in second place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

import yaml

from gpuconf.support.failures.proposals.figures import FIGURES, known_xids_of
from gpuconf.support.failures.proposals.proposal import Proposal
from gpuconf.support.failures.proposals.questions import QUESTIONS, VALUES
from gpuconf.support.failures.proposals.stack import needs_run
from gpuconf.support.failures.reading import LogFacts

_TEXTS = ("title", "reason", "kind", "paste", "run")
FIELD = re.compile(r"\{(?:(detail):)?([a-z_]{1,30})\}")
_PROFILE_HEAD = """\
# gpuconf.yaml, next to a script that starts with: import gpuconf.auto
# or, without editing the script: gpuconf run -- python train.py
"""
_ON_OLD_STACKS = (
    "`gpuconf run` needs nothing in the script's own environment; in the script gpuconf needs "
    "Python 3.10 and TensorFlow 2.15"
)


@cache
def table() -> dict[str, Any]:
    """All changes and lists by name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = {}
    for file in sorted(
        files(__package__).joinpath("changes").iterdir(), key=lambda each: each.name
    ):
        found |= yaml.load(file.read_text("utf-8"), Loader=loader)
    return found


def changes_for(name: str, facts: LogFacts) -> tuple[Proposal, ...]:
    """The changes for a cause, or for another name, whose conditions hold; none for an unknown
    name."""
    found: list[Proposal] = []
    named = table().get(name, [])
    for item in named if isinstance(named, list) else [named]:
        if not (found and "otherwise" in item):
            place = item.get("place", len(found) + 1) - 1
            found[place:place] = _changes(item, facts)
    return tuple(dict.fromkeys(found))


def _changes(item: Any, facts: LogFacts) -> Iterator[Proposal]:
    """The changes that a list item, or an entire list, resolves to."""
    if isinstance(item, list):
        for each in item:
            yield from _changes(each, facts)
    elif not _holds(item, facts):
        return
    elif "first" in item:
        group = next((each for each in item["first"] if _holds(each, facts)), None)
        yield from _changes(group["changes"] if group else [], facts)
    elif "otherwise" in item:
        yield from _changes(item["otherwise"], facts)
    elif "use" in item:
        named = table()[item["use"]]
        own = {key: item[key] for key in _TEXTS if key in item}
        used = named if isinstance(named, list) else {**named, **own}
        yield from islice(_changes(used, facts), item.get("most"))
    elif "each" in item:
        for texts in known_xids_of(facts):
            yield _proposal(item, facts, texts)
    else:
        yield _proposal(item, facts, {})


def _holds(item: Mapping[str, Any], facts: LogFacts) -> bool:
    return all(
        any(_is_so(each, facts) for each in condition.split(" or "))
        for condition in item.get("when", ())
    )


def _is_so(condition: str, facts: LogFacts) -> bool:
    if condition.startswith("not "):
        return not _is_so(condition.removeprefix("not "), facts)
    name, _, value = condition.partition(" ")
    return value in VALUES[name](facts) if value else QUESTIONS[name](facts)


def _proposal(item: Mapping[str, str], facts: LogFacts, more: Mapping[str, str]) -> Proposal:
    def filled(field: re.Match[str]) -> str:
        if field[1]:
            return str(facts.details.get(field[2], ""))
        return more[field[2]] if field[2] in more else FIGURES[field[2]](facts)

    title, reason, paste = (
        FIELD.sub(filled, item.get(key, "")) for key in ("title", "reason", "paste")
    )
    if "run" in item and needs_run(facts):
        command = " ".join(filter(None, ("gpuconf run", item["run"], "-- python train.py")))
        return Proposal(title, f"{reason}; {_ON_OLD_STACKS}", "command", command)
    kind: Any = item["kind"]
    return Proposal(title, reason, kind, _PROFILE_HEAD + paste if kind == "profile" else paste)
