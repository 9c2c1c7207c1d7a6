"""What all our command lines share: words that are refused, sizes, and the file of a plot."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB
from gpuconf.errors import UsageError
from gpuconf.support.command_line import (
    CommandParser,
    card_size_argument,
    check_picture,
    size_argument,
)
from tests.programs.processes import run_python


def parser() -> CommandParser:
    """A program with two commands, one of which has an option."""
    made = CommandParser(prog="tool")
    commands = made.add_subparsers(title="commands", required=True)
    commands.add_parser("explain").add_argument("--verbose", action="store_true")
    commands.add_parser("plan")
    return made


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["explian"], "`tool` does not recognize 'explian'", "did you mean `tool explain`? "),
        (["xyzzy"], "`tool` does not recognize 'xyzzy'", "`tool --help` shows what it accepts"),
        (["explain", "--verbsoe=1"], "'--verbsoe=1'", "did you mean `tool explain --verbose`?"),
        (["plan", "--verbose"], "`tool plan` does not recognize '--verbose'", "`tool plan --help`"),
        ([], "required", "`tool --help` shows what it accepts"),
    ],
)
def test_what_is_not_known_is_refused_by_the_command_that_was_meant(
    words: list[str], said: str, hint: str
) -> None:
    """UsageError with the program's name, the word, and what comes near it."""
    with pytest.raises(UsageError) as caught:
        parser().parse_args(words)
    assert said in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_size() -> None:
    """A number with a unit; without one, argparse is told what may have been meant."""
    assert size_argument("8GiB") == 8 * GIB
    assert card_size_argument("8GB") == card_size_argument(" 8 gb ") == 8 * GIB  # as sold
    assert card_size_argument("11264MiB") == 11 * GIB
    with pytest.raises(ArgumentTypeError, match="did you mean 8GiB"):
        size_argument("8 gigs")


def test_a_picture_that_can_be_written(tmp_path: Path) -> None:
    """PNG or SVG by the ending, large or small letters, also over a plot that is there."""
    check_picture(str(tmp_path / "a.png"))
    check_picture(str(tmp_path / "a.SVG"))
    (tmp_path / "old.png").touch()
    check_picture(str(tmp_path / "old.png"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("a.jpg", "a.png"), ("a", "a.png"), ("nosuch/a.png", "mkdir -p "), ("dir.png", "ls -ld ")],
)
def test_a_picture_that_cannot(tmp_path: Path, name: str, hint: str) -> None:
    """Another suffix, no such folder, a folder for a file: refused, and nothing is made."""
    (tmp_path / "dir.png").mkdir()
    with pytest.raises(UsageError) as caught:
        check_picture(str(tmp_path / name))
    assert hint in str(caught.value.hint)
    assert [path.name for path in tmp_path.iterdir()] == ["dir.png"]


def test_no_picture_without_matplotlib(tmp_path: Path) -> None:
    """MissingDependencyError with the command, though matplotlib is never imported to tell."""
    out = run_python(
        """
        import importlib.util, sys
        from gpuconf.support.command_line import check_picture
        from gpuconf.errors import MissingDependencyError
        check_picture("a.png")
        assert "matplotlib" not in sys.modules
        importlib.util.find_spec = lambda name: None
        try:
            check_picture("a.png")
        except MissingDependencyError as error:
            print(error.hint)
        """,
        tmp_path,
    )
    assert out == "pip install 'gpuconf[plot]'\n"
