"""``gpuconf docs``: read the documentation offline."""

from __future__ import annotations

import argparse
import re
import shlex
from difflib import get_close_matches
from pathlib import Path

import gpuconf
from gpuconf.commands.cli.output import Output
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.support.command_line import describe

_WIDEST = 100
# Marks for authors: which commands on a page are run, and how (docs/fences.py).
_MARK = re.compile(r"^<!-- (?:(run|file)(?:: )?)?(.*) -->\n", re.MULTILINE)

_DESCRIPTION = """\
Read a page of the documentation. The pages came with the package: nothing is
fetched. On a terminal they are formatted; a pipe gets Markdown."""

_EXAMPLES = """\
examples:
  gpuconf docs                    # the list of pages
  gpuconf docs rehearse
  gpuconf docs causes/host-oom
  gpuconf docs explain | less"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    topic = parser.add_argument(
        "topic", nargs="?", metavar="TOPIC", help="the page (default: list them)"
    )
    topic.completer = lambda **_: list(pages())  # type: ignore[attr-defined]  # of argcomplete
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the page, or the list of pages."""
    if options.topic is not None:
        _show(page_text(options.topic), output)
        return 0
    for name, page in pages().items():
        output.line(f"{name:<34}{_title(page)}")
    return 0


def page_text(topic: str) -> str:
    """Return a page as Markdown; raise UsageError if there is no such page."""
    known, name = pages(), topic.removesuffix(".md")
    if name not in known:
        close = get_close_matches(topic, known, n=1)
        hint = f"gpuconf docs {close[0]}" if close else "`gpuconf docs` lists the pages"
        raise UsageError(f"there is no page {topic!r}", hint=hint)
    return _MARK.sub(_captioned, known[name].read_text(encoding="utf-8"))


def _captioned(mark: re.Match[str]) -> str:
    words = caption(mark[1], mark[2]) if mark[1] else ""
    return f"*{words}:*\n\n" if words else ""


def caption(kind: str, text: str) -> str:
    """Return the caption for the mark ``<!-- kind: text -->`` above a block; "" for no caption."""
    if kind == "not run":
        return f"Not run by the tests: {text}"
    if kind == "file":
        return f"The file {text}"
    given = dict(word.partition("=")[::2] for word in shlex.split(text))
    if "card" not in given:
        return ""
    count = given.get("count", "1")
    cards = "a simulated GPU" if count == "1" else f"{count} simulated GPUs"
    used = f" with {_spaced(given['used'])} in use" if "used" in given else ""
    return f"On {cards} of {_spaced(given['card'])}{used}"


def _spaced(size: str) -> str:
    return re.sub(r"(?<=\d)(?=[A-Z])", " ", size)


def pages() -> dict[str, Path]:
    """Return the pages by name, from the package or from the checkout next to it."""
    package = Path(gpuconf.__file__).parent
    for folder in (package / "docs", package.parent / "docs"):
        found = sorted(folder.rglob("*.md"), key=lambda page: (len(page.parts), page))
        if found:
            return {_name(page, folder): page for page in found}
    raise GpuconfError(
        "this installation has no documentation pages",
        hint="pip install --force-reinstall gpuconf",
    )


def _name(page: Path, folder: Path) -> str:
    """Return the page's name as a user types it, such as ``causes/host-oom``."""
    return page.relative_to(folder).with_suffix("").as_posix()


def _title(page: Path) -> str:
    """Return the first heading."""
    with page.open(encoding="utf-8") as file:
        return next((line.lstrip("# ").rstrip() for line in file if line.startswith("#")), "")


def _show(text: str, output: Output) -> None:
    if output.width is None:
        output.raw(text)
        return
    from rich.markdown import Markdown

    screen = output.screen()
    with screen.pager(styles=True):
        screen.print(Markdown(text), width=min(output.width, _WIDEST))
