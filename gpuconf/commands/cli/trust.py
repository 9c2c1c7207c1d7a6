"""``gpuconf trust``: allow profiles found in a project to set any variable."""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

from gpuconf.basics.terminal import printable
from gpuconf.commands.cli.documents import (
    NewlyTrusted,
    RevokedDocument,
    TrustDocument,
    TrustListDocument,
)
from gpuconf.commands.cli.output import Output
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.profile import chain, find_profile, trust
from gpuconf.profile.permissions import Link, refused_variables, shell_word
from gpuconf.profile.search import Location, locate_path, places
from gpuconf.support.reporting.lines import Table
from gpuconf.support.reporting.problems import problem_of


class _Reading(NamedTuple):
    """A file to be trusted, the files that it extends, and why one of them cannot be read."""

    links: list[Link]
    problem: GpuconfError | None

    @property
    def file(self) -> Link:
        """The file itself."""
        return self.links[0]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    parser.description = (
        "A profile found in a project may set only limits and harmless variables, because "
        "someone else may have written it. One that you have read and trust may set every "
        "variable, as a file named by GPUCONF_PROFILE may. Trust ends when the file changes."
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("files", metavar="FILE", nargs="*", default=[], help="a profile's file")
    action.add_argument("--list", action="store_true", help="list the files that are trusted")
    action.add_argument("--revoke", metavar="FILE", help="stop trusting FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Trust files, list those that are trusted, or revoke one."""
    if options.list:
        return _list(output)
    if options.revoke is not None:
        return _revoke(options.revoke, output)
    return _trust(options.files, output)


def _trust(files: list[str], output: Output) -> int:
    """Trust all of ``files``, or none if one of them is not a valid profile."""
    readings = [_read(file) for file in files]
    for reading in readings:
        trust.record(reading.file.path, reading.file.data, os.environ)
    if output.as_json:
        output.document(TrustDocument(tuple(map(_newly_trusted, readings))))
        return 0
    for reading in readings:
        _say_trusted(reading, output)
    return 0


def _read(file: str) -> _Reading:
    """Read the file and all files that it extends; raise for errors in the file itself."""
    location: Location = locate_path(os.path.abspath(file), None)._replace(origin="project")
    if not os.path.lexists(file):
        _refuse_name(file)
    links, problems = chain.read_links(location, places(os.environ, None), None)
    problem = problems[0] if problems else None
    if problem is not None and (len(links) < 2 or problem.file == location.path):
        is_other = bool(links) and problem.key == "extends"
        if not is_other:
            raise problem
    return _Reading(links, problem)


def _refuse_name(name: str) -> None:
    """Raise UsageError if ``name`` is a profile's name, since trust takes a file."""
    try:
        found = find_profile(name)
    except GpuconfError:
        return
    if found.origin == "path":
        return
    path = os.path.relpath(found.path) if found.origin == "project" else found.path
    hint = f"gpuconf trust {shell_word(path)}"
    if found.origin == "shipped":
        hint = (
            "gpuconf's own profiles need no trust; `gpuconf trust FILE` is for a project's profiles"
        )
    raise UsageError(f"{printable(name)} is a profile name, but trust needs a file", hint=hint)


def _lacking(reading: _Reading) -> list[str]:
    """Return the extended files that must be trusted separately.

    A file is included if it, or one that it extends, sets variables that require trust.
    """
    links = reading.links
    needing = [i for i, link in enumerate(links) if refused_variables(link.root)]
    return [
        trust.trust_key(link.path)
        for link in links[1 : max(needing, default=0) + 1]
        if link.location.origin != "shipped"
        and not trust.is_trusted(link.path, link.data, os.environ)
    ]


def _newly_trusted(reading: _Reading) -> NewlyTrusted:
    return NewlyTrusted(
        path=trust.trust_key(reading.file.path),
        variables=tuple(name for name, _ in refused_variables(reading.file.root)),
        untrusted=tuple(_lacking(reading)),
        problem=None if reading.problem is None else problem_of(reading.problem),
    )


def _say_trusted(reading: _Reading, output: Output) -> None:
    path = printable(trust.trust_key(reading.file.path))
    names = [name for name, _ in refused_variables(reading.file.root)]
    sets = ", ".join(names) if names else "only what needs no trust"
    output.line(f"trusted until it changes: {path}")
    output.prose(f"  it sets {sets}")
    for other in _lacking(reading):
        output.note(
            f"it extends a file that needs separate trust: gpuconf trust {shell_word(other)}"
        )
    if reading.problem is not None:
        output.note(f"what it extends cannot be used: {reading.problem}")


def _list(output: Output) -> int:
    """Print every trusted file, and which of them have lost trust."""
    found = trust.trusted_files(os.environ)
    if output.as_json:
        output.document(TrustListDocument(tuple(found)))
        return 0
    if not found:
        output.note("no file is trusted")
        return 0
    words = {"changed": "changed since, so not trusted", "gone": "gone"}
    rows = [(words.get(entry.state, entry.state), printable(entry.path)) for entry in found]
    output.table(Table(("STATE", "FILE"), rows))
    return 0


def _revoke(file: str, output: Output) -> int:
    """Stop trusting ``file``, even if it no longer exists."""
    path = trust.trust_key(file)
    if not trust.revoke(file, os.environ):
        raise GpuconfError(f"{printable(path)} is not trusted", hint="gpuconf trust --list")
    if output.as_json:
        output.document(RevokedDocument(path))
    else:
        output.line(f"no longer trusted: {printable(path)}")
    return 0
