"""The fenced blocks of the pages: their marks, their command lines, and what stands below each.

A mark is a comment on the line above a fence, which a forge does not show:

    <!-- run: card=8GiB used=1GiB count=2 in=docs/examples exit=1 slow before="…" wait="…" -->
        `make transcripts` writes the output, and a test runs the commands again
    <!-- file: train.py -->     the block is that file, for the commands below it on the page
    <!-- not run: REASON -->    no test runs it; the site shows the reason below the block
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.commands.cli.docs import caption

ROOT = Path(__file__).resolve().parents[1]
_OPENING = re.compile(r"^(`{3,})([^\s`]*)[^`]*$")
_MARK = re.compile(r"^<!-- (run|file|not run)(?:: (.*?))? -->$")
_SHELLS = ("", "console", "sh", "bash")
_PROMPT, _GOES_ON = "$ ", "> "
# What a command line begins with where no prompt says that it is one.
_COMMAND = re.compile(
    r"^(?:[A-Z_]+=\S+ )*(?:gpuconf|python3?|pip|make|sudo|cd|cp|docker|srun|sbatch|git|export|"
    r"eval|pytest|bash|jupyter|ipython)(?= )"
)


class Mark(NamedTuple):
    """What is to be done with a fence, and how."""

    kind: str
    """run, file or not run."""
    text: str = ""
    """The file's name, or the reason; all words of a run's mark."""
    card: str = ""
    """The simulated GPU's memory, such as 8GiB; "" runs without a GPU."""
    used: str = "0MiB"
    context: str = ""
    """What a CUDA context takes of it; "" is what the simulated GPU says."""
    folder: str = ""
    """Where the commands run, from the checkout's root; "" is the page's own empty folder."""
    codes: frozenset[int] = frozenset({0})
    """The exit codes that are right."""
    slow: bool = False
    """Whether it starts a framework."""
    before: str = ""
    """Shell commands before the first one, which are not shown."""
    wait: str = ""
    """The same before the last one."""
    count: str = "1"
    """How many such GPUs."""


class Command(NamedTuple):
    """A command line, of one or more lines, and the output that the page shows below it."""

    lines: tuple[str, ...]
    output: tuple[str, ...]

    @property
    def text(self) -> str:
        """What a shell reads."""
        first, *others = self.lines
        rest = [line.removeprefix(_GOES_ON) for line in others]
        return "\n".join([first.removeprefix(_PROMPT), *rest])


class Fence(NamedTuple):
    """A fenced block; ``first`` and ``last`` are the places of its ticks in the page's lines."""

    page: Path
    first: int
    last: int
    language: str
    mark: Mark | None
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        """For messages: the page and the line of the opening ticks."""
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.first + 1}"

    @property
    def is_transcript(self) -> bool:
        """Whether prompts mark its commands, so that the rest is output."""
        return self.language in _SHELLS and any(line.startswith(_PROMPT) for line in self.lines)

    @property
    def commands(self) -> list[Command]:
        """Its command lines; none in what is no shell's."""
        if self.language not in _SHELLS:
            return []
        if self.is_transcript:
            return list(_prompted(self.lines))
        return [Command((line,), ()) for line in self.lines if _COMMAND.match(line)]


def pages() -> list[Path]:
    """Every page with command lines for readers."""
    inside = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *inside]


def fences(page: Path, text: str | None = None) -> list[Fence]:
    """The fenced blocks of a page, in their order; ValueError for a mark that cannot be read."""
    lines = (page.read_text(encoding="utf-8") if text is None else text).split("\n")
    found, place = [], 0
    while place < len(lines):
        opening = _OPENING.match(lines[place])
        if opening is None:
            place += 1
            continue
        last = lines.index(opening[1], place + 1)
        mark = _mark(lines[place - 1]) if place else None
        body = tuple(lines[place + 1 : last])
        found.append(Fence(page, place, last, opening[2], mark, body))
        place = last + 1
    return found


def _mark(line: str) -> Mark | None:
    found = _MARK.match(line)
    if found is None:
        return None
    kind, text = found[1], found[2] or ""
    if kind != "run":
        return Mark(kind, text)
    given: dict[str, object] = {}
    for word in shlex.split(text):
        name, _, value = word.partition("=")
        match name:
            case "card" | "used" | "context" | "count" | "before" | "wait":
                given[name] = value
            case "in":
                given["folder"] = value
            case "slow":
                given["slow"] = True
            case "exit":
                given["codes"] = frozenset({0, *map(int, value.split(","))})
            case _:
                raise ValueError(f"{name!r} is no word of a mark: {line}")
    return Mark("run", text, **given)


def _prompted(lines: Sequence[str]) -> Iterator[Command]:
    """The commands behind prompts; one whose quotes are open continues in the next line."""
    place = 0
    while place < len(lines):
        if not lines[place].startswith(_PROMPT):
            place += 1  # what stands above the first prompt
            continue
        end = place + 1
        while end < len(lines) and (lines[end].startswith(_GOES_ON) or _is_open(lines[place:end])):
            end += 1
        below = end
        while below < len(lines) and not lines[below].startswith(_PROMPT):
            below += 1
        yield Command(tuple(lines[place:end]), tuple(lines[end:below]))
        place = below


def _is_open(lines: Sequence[str]) -> bool:
    try:
        shlex.split("\n".join(lines), comments=True)
    except ValueError:
        return True
    return False


def marked_for_readers(text: str) -> str:
    """A page's Markdown for the site: below a marked block stands what its mark says."""
    lines = text.split("\n")
    for fence in reversed(fences(ROOT / "page.md", text)):
        words = caption(fence.mark.kind, fence.mark.text) if fence.mark is not None else ""
        if words:
            lines[fence.last + 1 : fence.last + 1] = ["", f'<p class="mark">{words}</p>', ""]
    return "\n".join(lines)
