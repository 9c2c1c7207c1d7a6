"""Programs that start another program in their own environment, and their command-line syntax."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import NamedTuple


class Options(NamedTuple):
    """The options at the start of a command line, each with its value or "", and the rest."""

    given: list[tuple[str, str]]
    rest: list[str]


def read_options(
    words: Sequence[str], valued: str = "", valued_long: Collection[str] = (), last: str = ""
) -> Options:
    """Split ``words`` as getopt does, at the first word that is not an option.

    ``valued`` are the letters and ``valued_long`` the long names that take a value. A letter in
    ``last`` takes a value too, and is always the last option.
    """
    given: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            takes_next = not equals and name in valued_long and rest
            given.append((name, rest.pop(0) if takes_next else value))
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter in valued + last:
                value = word[place:] or (rest.pop(0) if rest else "")
                given.append((letter, value))
                break
            given.append((letter, ""))
        if given[-1][0] in tuple(last):
            break
    return Options(given, rest)


class _Wrapper(NamedTuple):
    """How to find the wrapped command; ``operands`` counts the wrapper's own arguments."""

    valued: str = ""
    valued_long: tuple[str, ...] = ()
    operands: int = 0


_WRAPPERS = {
    "nice": _Wrapper("n", ("adjustment",)),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "unbuffer": _Wrapper(),
    "ionice": _Wrapper("cnpPu", ("class", "classdata", "pid", "pgid", "uid")),
    "taskset": _Wrapper(operands=1),
    "time": _Wrapper("fo", ("format", "output")),
    "timeout": _Wrapper("ks", ("kill-after", "signal"), operands=1),
    "stdbuf": _Wrapper("ioe", ("input", "output", "error")),
    "numactl": _Wrapper("iNmCPpw", ("interleave", "cpunodebind", "physcpubind", "membind")),
    "xvfb-run": _Wrapper("efnpsw", ("server-num", "server-args", "auth-file", "error-file")),
}


def command_behind(words: Sequence[str]) -> list[str] | None:
    """The command that ``words`` start in their own environment, None if there is none."""
    wrapper = _WRAPPERS.get(os.path.basename(words[0]))
    if wrapper is None:
        return None
    rest = read_options(words[1:], wrapper.valued, wrapper.valued_long).rest
    return rest[wrapper.operands :] or None
