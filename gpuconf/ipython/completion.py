"""TAB completion after %gpuconf: commands, options, profiles, checks, models, pages and files."""

from __future__ import annotations

import argparse
import glob
from collections.abc import Iterable, Mapping
from typing import Any

from gpuconf.errors import GpuconfError

_OF_PROFILES = ("profile", "plan")
_PROFILE_ACTIONS = ("list", "show", "check", "schema")
_PROFILE_OPTIONS = ("--profile",)


def candidates(line: str, commands: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """The completions of the word at the cursor, which is at the end of ``line``."""
    words = line.split()
    if line[-1:].isspace():
        words.append("")
    if len(words) < 2:
        return []
    *before, begun = words[1:]
    names = list(commands)
    is_first = not before or before == ["help"]
    offered = names if is_first else _for_command(before, begun, variables)
    return sorted(word for word in set(offered) if word.startswith(begun))


def _for_command(words: list[str], begun: str, variables: Mapping[str, Any]) -> list[str]:
    name, *before = words
    if begun.startswith("-"):
        return _options(name)
    if before[-1:] and before[-1] in _PROFILE_OPTIONS:
        return _profiles()
    if name in _OF_PROFILES:
        return _profiles()
    if name == "estimate":
        from gpuconf.ipython.estimate import model_names

        return model_names(variables)
    return _words(name, before, begun)


def _words(name: str, before: list[str], begun: str) -> list[str]:
    if name == "doctor":
        from gpuconf.commands.doctor.examination import known_checks

        return [*known_checks()]
    if name == "docs":
        from gpuconf.commands.cli.docs import pages

        return [*pages()]
    if name == "profiles":
        return _profiles() if before[-1:] in (["show"], ["check"]) else [*_PROFILE_ACTIONS]
    return _files(begun) if name == "explain" else []


def _profiles() -> list[str]:
    from gpuconf.profile import list_profiles

    try:
        return [entry.name for entry in list_profiles()]
    except (GpuconfError, OSError):
        return []


def _files(begun: str) -> list[str]:
    return glob.glob(f"{glob.escape(begun)}*")


def _options(name: str) -> list[str]:
    """The options of a command, from its own parser."""
    if name == "profile":
        from gpuconf.ipython.profile import parser as profile_parser

        return _long(profile_parser())
    if name == "estimate":
        from gpuconf.ipython.estimate import parser as estimate_parser

        return _long(estimate_parser())
    from gpuconf.commands.cli.main import build_parser

    for action in build_parser(at_once=[name])._actions:
        if isinstance(action, argparse._SubParsersAction) and name in action.choices:
            return _long(action.choices[name])
    return []


def _long(parser: argparse.ArgumentParser) -> list[str]:
    """The long options that --help shows."""
    return [
        option
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
        if option.startswith("--")
    ]
