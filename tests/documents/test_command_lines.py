"""Every command line of README and docs is run by a test, or is marked with the reason why not."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconf.commands.cli.main import build_parser
from gpuconf.errors import UsageError
from gpuconf.support.command_line import COMMANDS
from tests.commands.cli.commands import ROOT
from tests.documents.page_tools import docs_module

FENCES = docs_module("fences")
PAGES = FENCES.pages()
_SPAN = re.compile(r"`(gpuconf [^`]+)`")
_ENDS = ("|", ";", "&", "&&", "||", ">", "2>&1", "<", ")")


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences() -> Iterator[Any]:
    """The blocks with command lines, of all pages."""
    for page in PAGES:
        yield from (fence for fence in FENCES.fences(page) if fence.commands)


def test_every_block_of_commands_is_marked() -> None:
    """With `run`, and then tests/documents/test_transcripts.py runs it, or with a reason."""
    assert len(list(fences())) > 40
    unmarked = [
        f"{fence.place}: {fence.commands[0].text}"
        for fence in fences()
        if fence.mark is None or fence.mark.kind == "file"
    ]
    assert not unmarked, f"mark them as docs/fences.py says:\n{chr(10).join(unmarked)}"


def test_a_reason_says_something() -> None:
    """Of at least three words."""
    silent = [
        fence.place
        for fence in fences()
        if fence.mark is not None
        and fence.mark.kind == "not run"
        and len(fence.mark.text.split()) < 3
    ]
    assert silent == []


def test_no_mark_is_lost() -> None:
    """A comment that begins as a mark does is one, and stands directly above its block."""
    lost = []
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").split("\n")
        places = {fence.first - 1 for fence in FENCES.fences(page) if fence.mark is not None}
        for place, line in enumerate(lines):
            if re.match(r"<!-- (run|file|not run)\b", line) and place not in places:
                lost.append(f"{_named(page)}:{place + 1}: {line}")
    assert lost == []


def _shell_words(text: str) -> Iterator[list[str]]:
    """The programs that a command line starts, each as its words without variables."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word in _ENDS or set(word) <= set("|;&<>()"):
            while words and re.match(r"[A-Z_]+=", words[0]):
                words.pop(0)
            if words:
                yield words
            words = []
        else:
            words.append(word)


def problem(words: list[str]) -> str | None:
    """What is wrong with a command line, where that can be seen without running it."""
    match words:
        case ["gpuconf", *arguments]:
            return _problem_of_ours(arguments)
        case ["python" | "python3", "-m", module, *arguments]:
            return _problem_of_module(module, arguments)
        case ["make", target, *_] if f"\n{target}:" not in (ROOT / "Makefile").read_text("utf-8"):
            return f"the Makefile has no target {target}"
        case ["pip", "install", *what]:
            return _problem_of_extras(what)
        case ["pytest", *paths]:
            gone = [path for path in paths if "/" in path and not (ROOT / path).exists()]
            return f"there is no {gone[0]}" if gone else None
    return None


def _problem_of_module(module: str, arguments: list[str]) -> str | None:
    if importlib.util.find_spec(module) is None:
        return f"there is no module {module}"
    if module == "gpuconf.simcard" and "--" in arguments:
        return problem(arguments[arguments.index("--") + 1 :])
    return None


def _problem_of_ours(arguments: list[str]) -> str | None:
    try:
        build_parser().parse_args(arguments)
    except UsageError as error:
        return str(error)
    except SystemExit:
        return None  # --help
    if arguments[0] in ("run", "rehearse") and "--" in arguments:
        return problem(arguments[arguments.index("--") + 1 :])
    return None


def _problem_of_extras(what: list[str]) -> str | None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    _, _, extras = project.partition("[project.optional-dependencies]")
    known = set(re.findall(r"^([\w-]+) = \[", extras.partition("\n\n")[0], re.MULTILINE))
    for word in what:
        found = re.fullmatch(r"(?:gpuconf|\.)\[([\w,-]+)\]", word)
        unknown = set(found[1].split(",")) - known if found else ()
        if unknown:
            return f"pyproject.toml has no extra {unknown}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_commands_that_are_not_run_are_possible(page: Path) -> None:
    """Of each in a block: options that the command has, modules, targets and extras that exist."""
    wrong = [
        f"{fence.place}: {command.text}: {found}"
        for fence in FENCES.fences(page)
        for command in fence.commands
        for words in _shell_words(command.text)
        if (found := problem(words)) is not None
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_commands_within_sentences_are_possible(page: Path) -> None:
    """An option in `gpuconf doctor --probe` is one that the command has; values may be missing."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for line in _SPAN.findall(text):
        if line.split()[1] in COMMANDS:
            found = [problem(words) for words in _shell_words(line)]
            wrong += [f"{line}: {each}" for each in found if each and "does not recognize" in each]
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "gpuconf plan --jason",
        "gpuconf run --profile half-card -- gpuconf pla",
        "python -m gpuconf.simcard run --total 8GiB -- gpuconf plan --jason",
        "cd docs && gpuconf explain --plott x.png train.log",
        "python -m benchmarks.no_such_thing",
        "make no-such-target",
        "pip install '.[no-such-extra]'",
        "pytest tests/no/such_file.py",
    ],
)
def test_an_impossible_command_is_seen(line: str) -> None:
    """Behind variables, pipes and other commands too."""
    assert [words for words in _shell_words(line) if problem(words) is not None]
