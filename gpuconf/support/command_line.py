"""The command-line parser of all our programs: errors are raised with a suggested fix."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gpuconf.basics.units import parse_size_argument
from gpuconf.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from pathlib import Path  # imported only where a path is parsed: --help needs none

# The commands.  The name is also that of the module in cli/, which is imported on demand; the text
# is the line that --help shows.
COMMANDS = {
    "run": "run a command, unmodified, within the memory that a profile allows",
    "shell": "start your shell: what runs in it stays within that memory",
    "plan": "show what a profile would do here and now",
    "ps": "show which processes use the memory of each GPU, and which are waiting",
    "profiles": "list, show and check profiles",
    "trust": "allow a profile found in a project to set any variable",
    "init": "write a gpuconf.yaml that fits this machine",
    "doctor": "find what is wrong with this machine, and print the command that fixes it",
    "explain": "read a log, and say why the run failed and what to change",
    "estimate": "show how much GPU memory a model needs, and which batch fits",
    "rehearse": "run a training script for a few steps on a simulated GPU: does it fit?",
    "simcard": "run a program on a simulated GPU, with no GPU",
    "docs": "read the documentation that came with the package",
    "completion": "print the setup that lets your shell complete gpuconf's commands",
    "demo": "train on a crowded GPU: it fails, but works with one extra line",
}
# The others lock files or start processes in ways that Windows lacks.
WORK_ON_WINDOWS = ("plan", "ps", "profiles", "init", "doctor", "explain", "docs", "completion")
_PICTURES = (".png", ".svg")
# Error messages from argparse.
_SOMETHING_IS_MISSING = ("the following arguments are required", "one of the arguments")


class CommandParser(argparse.ArgumentParser):
    """A parser that raises UsageError and suggests what was probably meant.

    If ``after_dashes`` is set, the words after ``--`` are stored in the option of that name.
    """

    after_dashes: str | None = None
    _words: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        if message.startswith(_SOMETHING_IS_MISSING):  # a misspelled option may be the cause
            for word in self._words:
                if word.startswith("--") and not self._is_option(word):
                    self._refuse(word, self._option_string_actions)
        raise UsageError(message, hint=f"`{self.prog} --help` shows what it accepts")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reject unknown options here, where the command that received them is known."""
        rest: list[str] = []
        if self.after_dashes is not None and args is not None and "--" in args:
            at = args.index("--")
            args, rest = args[:at], args[at + 1 :]
        self._words = args or ()
        options, unknown = super().parse_known_args(args, namespace)
        if self.after_dashes is not None:
            setattr(options, self.after_dashes, rest)
        if unknown:
            self._refuse(unknown[0], self._option_string_actions)
        return options, unknown

    def _is_option(self, word: str) -> bool:
        """Whether ``word`` is one of this parser's options, or a prefix of one."""
        name = word.partition("=")[0]
        return any(known.startswith(name) for known in self._option_string_actions)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self._refuse(value, action.choices)
        super()._check_value(action, value)

    def _refuse(self, word: str, known: Iterable[str]) -> NoReturn:
        from difflib import get_close_matches

        close = get_close_matches(word.partition("=")[0], list(known), n=1)
        meant = f"did you mean `{self.prog} {close[0]}`? " if close else ""
        raise UsageError(
            f"`{self.prog}` does not recognize {word!r}",
            hint=f"{meant}`{self.prog} --help` shows what it accepts",
        )


def describe(parser: argparse.ArgumentParser, description: str, examples: str) -> None:
    """Give ``parser`` help texts that keep their line breaks."""
    parser.description, parser.epilog = description, examples
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def command_after_dashes(words: list[str], options: Iterable[str], example: str) -> list[str]:
    """Return the command after ``--``; raise UsageError if it is missing or has one of our
    ``options``.

    ``words`` is the rest of the command line, from the first word that is not one of our options.
    ``example`` is a complete, valid command line.
    """
    prog = example.partition(" -- ")[0].split()[1]
    if words[:1] == ["--"]:
        words = words[1:]
    else:
        ours = next((word for word in words if word.partition("=")[0] in options), None)
        if ours is not None:
            raise UsageError(
                f"{ours} comes after the command: is it for {prog}, or for {words[0]}?",
                hint=f"put -- before the command, and options for {prog} before that: {example}",
            )
    if not words:
        raise UsageError(f"there is no command to {prog}", hint=f"put it after --: {example}")
    return words


def size_argument(text: str) -> int:
    """Parse a size such as ``8GiB`` into bytes; raise ArgumentTypeError with a suggestion."""
    try:
        return parse_size_argument(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def card_size_argument(text: str) -> int:
    """Parse a GPU's memory like `size_argument`, but read ``4GB`` as 4 GiB, as GPUs are sold.

    Manufacturers count a GPU's memory in units of 1024 and write GB.
    """
    as_sold = re.sub(r"(?i)(?<=[0-9 ])([GM])B\s*$", r"\1iB", text)
    return size_argument(as_sold)


def seconds_argument(text: str) -> float:
    """Parse a positive number of seconds; raise ArgumentTypeError for anything else."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def positive(text: str) -> int:
    """Parse a count; raise ArgumentTypeError if it is below 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)


def file_to_write(option: str, path: str, suffixes: Iterable[str], rule: str, hint: str) -> Path:
    """Return an option's output file; raise UsageError for a wrong suffix or a missing folder."""
    from pathlib import Path

    target, folder = Path(path), Path(path).parent
    if target.suffix.lower() not in suffixes:
        raise UsageError(f"{option} {path}: {rule}", hint=hint)
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {folder}", hint=f"mkdir -p {folder}")
    return target


def check_picture(path: str) -> None:
    """Check before anything runs that ``--plot`` can write a plot to ``path``.

    Raises UsageError for a wrong suffix or a folder that is missing or not writable, and
    MissingDependencyError without matplotlib.
    """
    from importlib.util import find_spec
    from pathlib import Path

    hint = f"--plot {Path(path).with_suffix('.png')}"
    target = file_to_write(
        "--plot", path, _PICTURES, "the file name must end in .png or .svg", hint
    )
    folder = target.parent
    if target.is_dir() or not os.access(target if target.exists() else folder, os.W_OK):
        raise UsageError(f"--plot {path}: no permission to write there", hint=f"ls -ld {folder}")
    if find_spec("matplotlib") is None:
        raise MissingDependencyError(
            "--plot needs matplotlib, which is not installed",
            hint="pip install 'gpuconf[plot]'",
        )
