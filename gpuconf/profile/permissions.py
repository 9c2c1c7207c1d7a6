"""What a profile file may set, depending on how it was reached.

*Shipped* and *named* files may set any variable that ``compound_rules.env`` allows.  *Found* files,
which may come from an untrusted repository, may set only those in harmless_variables.yaml.
docs/reference/profiles.md describes the three levels.  See also ``trust``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuconf.basics.terminal import printable
from gpuconf.errors import ProfileError
from gpuconf.profile import nodes
from gpuconf.profile.folders import foreign_owner, owner_of
from gpuconf.profile.model import Note
from gpuconf.profile.problems import problem
from gpuconf.profile.search import Location

FOUND = "found"
NAMED = "named"
SHIPPED = "shipped"
_LOWEST_FIRST = (FOUND, NAMED, SHIPPED)


class Link(NamedTuple):
    """One file of a chain, with its bytes; ``level`` is the lowest level in the chain so far."""

    location: Location
    data: bytes
    root: nodes.Mapping
    level: str

    @property
    def path(self) -> str:
        """The file's path."""
        return self.location.path


def level_of(location: Location) -> str:
    """Return a file's own level; a user file that others can write to counts only as found."""
    if location.origin == "shipped":
        return SHIPPED
    if location.origin == "user":
        return NAMED if foreign_owner(location.path) is None else FOUND
    return NAMED if location.origin == "path" else FOUND


def lower(level: str, other: str) -> str:
    """Return the lower of two levels."""
    return min(level, other, key=_LOWEST_FIRST.index)


@functools.cache
def harmless_variables() -> frozenset[str]:
    """Return the variables that a found file may set."""
    from importlib.resources import files  # slow to import, and few found files set variables

    import yaml

    text = files("gpuconf.profile").joinpath("harmless_variables.yaml").read_text("utf-8")
    return frozenset(name for names in yaml.safe_load(text).values() for name in names)


def refused_variables(root: nodes.Mapping) -> list[tuple[str, nodes.Entry]]:
    """Return the variables that the file sets but a found file may not, each with its position."""
    env = root.get("env")
    entries = env.entries if isinstance(env, nodes.Mapping) else {}
    return [
        (name, entry)
        for name, entry in entries.items()
        if name not in harmless_variables()
        and not (isinstance(entry.value, nodes.Scalar) and entry.value.is_null)
    ]


def refusals(links: Sequence[Link], environ: Mapping[str, str]) -> list[ProfileError]:
    """List what the last of ``links`` may not set because it, or one before it, was only found."""
    last = links[-1]
    if last.level != FOUND:
        return []
    refused = refused_variables(last.root)
    if not refused:
        return []
    lacking = untrusted(links, environ)
    why = _why_found(links, environ)
    return [_refusal(name, entry, links, lacking, why) for name, entry in refused if lacking]


def untrusted(links: Sequence[Link], environ: Mapping[str, str]) -> list[str]:
    """Return the paths of ``links`` that have only a found file's powers and are not trusted.

    Trust does not extend from a file to the one it extends, or back.
    """
    return [
        os.path.abspath(link.path)
        for link in links
        if link.level == FOUND
        and link.location.origin != "shipped"
        and not _is_trusted(link, environ)
    ]


def _is_trusted(link: Link, environ: Mapping[str, str]) -> bool:
    from gpuconf.profile import trust  # few profiles need it

    return trust.is_trusted(link.path, link.data, environ)


def notes(links: Sequence[Link], environ: Mapping[str, str]) -> tuple[Note, ...]:
    """Return a line for each found file that another user may have written."""
    lines = []
    for link in links:
        if link.level != FOUND or link.location.origin == "shipped":
            continue
        uid = foreign_owner(link.path)
        if uid is not None and not _is_trusted(link, environ):
            path = os.path.abspath(link.path)
            what = "belongs" if owner_of(path) == uid else "is in a folder that belongs"
            command = _trust_command([path])
            text = (
                f"{printable(path)} {what} to another user (uid {uid}); it may set only limits and "
                f"harmless variables; to allow more, read it, then: {command}"
            )
            lines.append(Note(text, command))
    return tuple(lines)


def _refusal(
    name: str, entry: nodes.Entry, links: Sequence[Link], lacking: Sequence[str], why: str
) -> ProfileError:
    message = (
        f"{why}, so it may set only harmless variables: none that loads code, runs a command, "
        "writes a file, or contacts a server"
    )
    command = _trust_command(lacking)
    hint = f"read the file, then: {command}"
    # Naming the first file makes the others named too, but only if it extends them by path.
    if all(level_of(link.location) != FOUND for link in links[1:]):
        first = os.path.abspath(links[0].path)
        hint = f"name the file: `GPUCONF_PROFILE={shell_word(first)} python …`, or {hint}"
    return problem(message, mark=entry.key_mark, key=f"env.{name}", hint=hint, command=command)


def _why_found(links: Sequence[Link], environ: Mapping[str, str]) -> str:
    """Explain why the last of ``links`` has only a found file's powers."""
    from gpuconf.profile import trust

    first = links[0].location
    if trust.was_trusted(links[-1].path, environ):
        return "this file was trusted, but has changed since then"
    if first.origin == "user":
        return f"this file can be written by another user (uid {foreign_owner(first.path)})"
    if len(links) > 1:
        return "this file was reached from a file that was found in a project"
    return "this file was found in a project, not given by its path"


def _trust_command(paths: Sequence[str]) -> str:
    return " ".join(["gpuconf trust", *(shell_word(os.path.abspath(path)) for path in paths)])


def shell_word(path: str) -> str:
    """Quote a path for pasting into a shell."""
    from shlex import quote  # a valid profile needs no quoting

    return printable(quote(path))
