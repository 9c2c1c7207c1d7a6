"""The command line's request for a run: a profile, changes to it, and the number of processes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.basics.units import parse_duration
from gpuconf.errors import ProfileError, UsageError
from gpuconf.profile import Profile, load_profile, nodes
from gpuconf.support.command_line import positive

FOREVER = "forever"


class Request(NamedTuple):
    """``overrides`` is nested like a profile; ``processes`` is the maximum per GPU at one time."""

    profile: str | None = None
    overrides: Mapping[str, object] = {}
    processes: int = 1

    def load(self) -> Profile:
        """Load the requested profile; raises ProfileError."""
        found = load_profile(self.profile, overrides=self.overrides or None)
        return found._replace(processes=self.processes)

    @property
    def is_default(self) -> bool:
        """Whether nothing was requested."""
        return self == Request()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that define a Request."""
    parser.add_argument(
        "--profile",
        metavar="PROFILE",
        help="a profile's name, or a path to one (default: $GPUCONF_PROFILE, else the project's "
        "gpuconf.yaml, else your own, else shared-desktop)",
    )
    add_changes(parser)


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add only the options that change a profile."""
    add_set(parser)
    parser.add_argument(
        "--wait",
        metavar="TIME",
        nargs="?",
        type=_time,
        const=FOREVER,
        help="if too little memory is left, wait for it: up to TIME (10min, 2h), or as "
        "long as it takes",
    )
    parser.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        default=1,
        help="how many processes may compute on each GPU at a time, each with an equal part "
        "(default 1)",
    )


def _time(text: str) -> str:
    """A time to wait, in the syntax of profiles; raises ArgumentTypeError for anything else."""
    try:
        if text != FOREVER and not parse_duration(text) > 0:
            raise ValueError("more than nothing")
    except ValueError:
        meant = "none? put -- behind --wait"
        if text.isdecimal() and int(text):
            meant = f"did you mean {text}s or {text}min?"
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 10min or {FOREVER} ({meant})"
        ) from None
    return text


def add_set(parser: argparse.ArgumentParser) -> None:
    """Add the option for one key of a profile."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="changes",
        help="change a key of the profile, such as memory.memory_limit=4GiB; repeatable",
    )


def request_of(options: argparse.Namespace) -> Request:
    """The Request from parsed options; raises UsageError for a bad ``--set``."""
    overrides = changes_of(options.changes)
    if options.wait is not None:
        _merge(overrides, ("memory", "on_shortage"), {"wait": options.wait})
    return Request(options.profile, overrides, options.processes)


def changes_of(changes: Sequence[str]) -> dict[str, Any]:
    """Return the changes from --set, nested like a profile; raises UsageError."""
    overrides: dict[str, Any] = {}
    for change in changes:
        _merge(overrides, *_parsed(change))
    return overrides


def _parsed(change: str) -> tuple[Sequence[str], object]:
    """The path and value of ``memory.memory_limit=4GiB``: a value as in a file, or text in env."""
    key, equals, text = change.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise UsageError(
            f"--set {change}: expected a key, =, and a value",
            hint="--set memory.memory_limit=4GiB; `gpuconf profiles schema` lists the keys",
        )
    if path[0] == "env":
        return ("env", key.partition(".")[2].strip()), text
    from gpuconf.profile.document import parse  # imported here because --set is rare

    try:
        indented = text.replace("\n", "\n  ")
        return path, parse(f"value:\n  {indented}", "--set").entries["value"].value
    except ProfileError as error:
        raise UsageError(
            f"--set {change}: the value is not YAML: {error.message}",
            hint=f"put it in quotes: --set '{key}=\"…\"'",
        ) from None


def _merge(into: dict[str, Any], path: Sequence[str], value: object) -> None:
    """Set ``value`` at ``path``; for a mapping, set each key, so that earlier changes are kept."""
    if isinstance(value, nodes.Mapping) and value.entries:
        for name, entry in value.entries.items():
            _merge(into, (*path, name), entry.value)
        return
    *folders, last = path
    for name in folders:
        inner = into.setdefault(name, {})
        if not isinstance(inner, dict):
            inner = into[name] = {}
        into = inner
    into[last] = value
