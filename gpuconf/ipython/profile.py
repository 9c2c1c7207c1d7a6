"""``%gpuconf profile [NAME]``: show or choose the profile of this kernel."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

from gpuconf.commands.run.request import add_set, changes_of
from gpuconf.errors import TooLateError
from gpuconf.ipython.drawing import Drawing, drawing
from gpuconf.ipython.showing import NotebookOutput
from gpuconf.profile import chosen_profile, list_profiles
from gpuconf.session.configure import activation, configure
from gpuconf.support.command_line import CommandParser
from gpuconf.support.reporting.lines import Line


def run(words: list[str], output: NotebookOutput) -> None:
    """Show the active profile, or apply a profile."""
    options = parser().parse_args(words)
    changes = changes_of(options.changes)
    if options.name is not None or changes:
        _choose(options, changes)
    output.show(_state())


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    made = CommandParser(
        prog="%gpuconf profile",
        description="Show the profile that this kernel uses; with NAME, choose it. It must be "
        "chosen before the framework initializes its GPUs, best in the first cell.",
    )
    made.add_argument("name", nargs="?", metavar="NAME", help="a profile's name, or a path to one")
    add_set(made)
    return made


def _choose(options: argparse.Namespace, changes: dict[str, object]) -> None:
    """Call `gpuconf.configure`; if it is too late for a kernel, restarting the kernel helps."""
    try:
        configure(options.name, **changes)
    except TooLateError as error:
        words = [options.name] if options.name else []
        words += [word for each in options.changes for word in ("--set", each)]
        command = shlex.join(["%gpuconf", "profile", *words])
        raise TooLateError(
            error.message,
            hint=f"restart the kernel (Kernel > Restart), and run `{command}` in a cell above the "
            "one that imports the framework",
        ) from None


def _state() -> Drawing:
    """The Activation of this process, or what would apply, and the available profiles."""
    made = activation()
    if made is not None:
        lines = [*str(made).splitlines(), ""]
    else:
        choice = chosen_profile()
        lines = [
            "no profile is active in this kernel: nothing limits a framework that is imported now",
            f"`%gpuconf profile` with a name chooses one; without a name, `import "
            f"gpuconf.auto` would use {choice.profile}, because {choice.because}",
        ]
    return drawing(map(Line, [*lines, *_profiles(made.profile if made is not None else None)]))


def _profiles(in_force: str | None) -> Iterator[str]:
    """Every profile that can be found, with the active one marked."""
    for entry in list_profiles():
        if not entry.is_shadowed:
            mark = "✓" if entry.name == in_force else " "
            about = (
                f"broken: {entry.error}"
                if entry.error
                else " ".join((entry.description or "").split())
            )
            yield f"{mark} {entry.name:<20}{about}"
