"""A command line as all our programs have it: what is refused is raised, with what was meant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from gpuconf.errors import UsageError
from gpuconf.units import parse_size_argument


class CommandParser(argparse.ArgumentParser):
    """A parser that raises UsageError for what it refuses, and asks what may have been meant."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` shows what it takes")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse the unknown here, where the command whose options they are not is known."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown[0], self._option_string_actions)
        return options, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self._refuse(value, action.choices)
        super()._check_value(action, value)

    def _refuse(self, word: str, known: Iterable[str]) -> NoReturn:
        close = get_close_matches(word.partition("=")[0], list(known), n=1)
        meant = f"did you mean `{self.prog} {close[0]}`? " if close else ""
        raise UsageError(
            f"`{self.prog}` does not know {word!r}",
            hint=f"{meant}`{self.prog} --help` shows what it takes",
        )


def size_argument(text: str) -> int:
    """The bytes in an argument such as ``8GiB``; ArgumentTypeError with what was meant, if not."""
    try:
        return parse_size_argument(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
