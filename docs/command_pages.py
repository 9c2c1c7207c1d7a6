"""What the site adds to docs/reference/commands.md: the help of every command, from its parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from gpuconf.commands.cli.main import build_parser
from gpuconf.simcard.__main__ import _parser as simcard_parser  # which takes all its words itself
from gpuconf.support.command_line import COMMANDS

_SCHEMAS = Path(__file__).resolve().parents[1] / "configs"


def made_part() -> str:
    """The list of commands, and a section for each."""
    return "\n".join([*_list(), *_commands()]).rstrip() + "\n"


def _list() -> Iterator[str]:
    yield from ("| command | |", "|---|---|")
    for name, about in COMMANDS.items():
        yield f"| [`gpuconf {name}`](#gpuconf-{name}) | {about} |"
    yield ""


def _commands() -> Iterator[str]:
    parsers = children(build_parser(at_once=list(COMMANDS)))
    parsers["simcard"] = simcard_parser()
    for name in COMMANDS:
        yield from _command(parsers[name], f"gpuconf {name}", level=2)
        if (_SCHEMAS / f"{name}.schema.json").exists():
            schema = f"{name}.schema.json"
            yield f"What `--json` prints: [{schema}](../../configs/{schema})."
            yield ""


def _command(parser: argparse.ArgumentParser, name: str, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} `{name}`", "")
    if parser.description:
        yield from (_paragraphs(parser.description), "")
    yield from _arguments(parser)
    if parser.epilog:
        yield from ("```text", parser.epilog.strip(), "```", "")
    for word, child in children(parser).items():
        yield from _command(child, f"{name} {word}", level + 1)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [
        (_name(action), _cell(action.help or ""))
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    ]
    if rows:
        yield from ("| argument | |", "|---|---|")
        yield from (f"| {name} | {about} |" for name, about in rows)
        yield ""


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        shown = action.metavar or action.dest
        return f"`{shown if isinstance(shown, str) else ' '.join(shown)}`"
    value = ""
    if action.nargs != 0:
        choices = "|".join(map(str, action.choices or ()))
        value = f" {action.metavar or choices or action.dest.upper()}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings).replace("|", "\\|")


def _cell(text: str) -> str:
    """Help as a cell: placeholders of argparse's are doubled percents here."""
    return " ".join(text.split()).replace("%%", "%").replace("|", "\\|")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip()))


def children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a command's own commands, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
