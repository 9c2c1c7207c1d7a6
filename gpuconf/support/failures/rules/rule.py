"""The format of the rules, and the loader for rule files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, get_args

import yaml

from gpuconf.support.failures.causes import CAUSES
from gpuconf.support.failures.log.shapes import phrase, says

# error: something failed.  ladder: failed, and is retried with less.  fallback: continues on the
# CPU.  warning: the run continues, slightly worse.  big-allocation: fatal only as the last line.
# hint: no meaning alone, see refinement.py.  harmless: no meaning at all.
Level = Literal["error", "ladder", "fallback", "warning", "big-allocation", "hint", "harmless"]
_KEYS = {
    "id", "cause", "level", "softly", "says", "unless", "pattern", "exclude", "generic", "fatal",
    "means", "caught", "beside_gpu",
}  # fmt: skip

_LEVELS = ("level", "softly", "caught", "beside_gpu")


class Rule(NamedTuple):
    """A line with one of ``says``, none of ``unless``, and a match of ``pattern`` means ``cause``.

    A line that matches ``exclude`` does not.

    ``generic``: another line, if present, explains the problem better.  ``fatal``: the line always
    ends a program.  ``means`` is the human-readable explanation.

    Other levels: ``softly`` if the program marks the line as a warning; ``caught`` if it is the
    message of an exception that was caught and printed; ``beside_gpu`` if a GPU is used anyway.
    """

    id: str
    cause: str | None
    level: Level
    says: tuple[str, ...]
    phrases: tuple[bytes, ...]
    means: str
    unless: tuple[bytes, ...] = ()
    pattern: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None
    generic: bool = False
    fatal: bool = False
    softly: Level | None = None
    caught: Level | None = None
    beside_gpu: Level | None = None

    def holds(self, shape: bytes, text: str) -> bool:
        """Whether this rule applies to a line that contains one of ``phrases``."""
        if any(says(shape, said) for said in self.unless):
            return False
        if self.exclude is not None and self.exclude.search(text):
            return False
        return self.pattern is None or self.pattern.search(text) is not None


@cache
def all_rules() -> tuple[Rule, ...]:
    """All shipped rules, file by file."""
    folder = files(__package__)
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yaml"))
    return tuple(
        rule for name in names for rule in read_rules((folder / name).read_text("utf-8"), name)
    )


def read_rules(text: str, name: str) -> Iterator[Rule]:
    """The rules of one file; ValueError names the invalid part of a rule."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for entry in yaml.load(text, Loader=loader)["rules"]:
        problem = _problem(entry)
        if problem is not None:
            raise ValueError(f"{name}: rule {entry.get('id')!r}: {problem}")
        yield Rule(
            id=entry["id"],
            cause=entry.get("cause"),
            level=entry["level"],
            says=tuple(entry["says"]),
            phrases=tuple(map(phrase, entry["says"])),
            means=entry["means"],
            unless=tuple(map(phrase, entry.get("unless", ()))),
            pattern=re.compile(entry["pattern"]) if "pattern" in entry else None,
            exclude=re.compile(entry["exclude"]) if "exclude" in entry else None,
            generic=entry.get("generic", False),
            fatal=entry.get("fatal", False),
            softly=entry.get("softly"),
            caught=entry.get("caught"),
            beside_gpu=entry.get("beside_gpu"),
        )


def _problem(entry: Mapping[str, Any]) -> str | None:
    unknown, missing = entry.keys() - _KEYS, {"id", "level", "says", "means"} - entry.keys()
    if unknown or missing:
        return f"unknown keys {sorted(unknown)}, missing keys {sorted(missing)}"
    for level in [entry[key] for key in _LEVELS if key in entry]:
        if level not in get_args(Level):
            return f"level {level!r} is not one of {get_args(Level)}"
    if (entry["level"] == "harmless") == ("cause" in entry):
        return "a rule must have a cause, but a harmless one must not"
    if entry.get("cause", "no-device") not in CAUSES:
        return f"unknown cause: {entry['cause']!r}"
    return _problem_of_phrases(entry)


def _problem_of_phrases(entry: Mapping[str, Any]) -> str | None:
    texts = entry["says"]
    wordless = [said for said in texts if not phrase(said)]
    if wordless:
        return f"silently: {wordless}"
    numbered = [said for said in texts if re.search(r"\d", said)]
    if numbered and "pattern" not in entry:
        return f"numbers count only in a pattern, but there is none for {numbered}"
    excluded = list(map(phrase, entry.get("unless", ())))
    own = [said for said in texts if any(says(phrase(said), each) for each in excluded)]
    return f"unless excludes its own phrases: {own}" if own else None
