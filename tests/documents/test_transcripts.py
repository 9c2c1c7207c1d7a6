"""The transcripts on the pages are what the commands print now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands.cli.commands import ROOT
from tests.documents.page_tools import docs_module

TRANSCRIPTS = docs_module("transcripts")
FENCES = docs_module("fences")


def _marked(page: Path, *, slow: bool) -> bool:
    marks = [fence.mark for fence in FENCES.fences(page)]
    return any(mark is not None and mark.kind == "run" and mark.slow >= slow for mark in marks)


def _pages(*, slow: bool) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in FENCES.pages() if _marked(page, slow=slow)]


def _check(page: str, *, slow: bool) -> None:
    ran = TRANSCRIPTS.run_page(ROOT / page, os.environ, slow=slow)
    stale = [str(each) for fence, seen in ran for each in TRANSCRIPTS.stale(fence, seen)]
    assert not stale, "\n\n".join([*stale, f"`make transcripts` writes {page} again"])


# The gate runs what newcomers read first; what the other pages show, other tests prove there.
_IN_THE_GATE = ("README.md", "docs/get-started.md")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page in _IN_THE_GATE else pytest.mark.nightly)
        for page in _pages(slow=False)
    ],
)
def test_a_page_shows_what_its_commands_print(page: str) -> None:
    """Those that start no framework: figures and words; not dates, pids, paths and versions."""
    _check(page, slow=False)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("page", _pages(slow=True))
def test_a_page_shows_what_its_trainings_print(page: str) -> None:
    """The same of all of a page's commands, in their order, on a simulated GPU that computes."""
    _check(page, slow=True)


SEEN = ("total 11264 MiB, free 9319 MiB", "pid 17 train.py", "limit = 3942 MiB", "2.21.0")


@pytest.mark.parametrize(
    ("shown", "is_shown"),
    [
        (SEEN, True),
        (("total 11264 MiB,", "free 9319 MiB", "pid 4 train.py", "limit = 3942 MiB 2.15.1"), True),
        (("total 11264 MiB, free 9319 MiB", "…"), True),
        (("…", "limit = 3942 MiB", "2.21.0"), True),
        (("…", "limit = 3942 MiB"), False),
        (("total 11264 MiB, free 9319 MiB", "…", "limit = 3943 MiB", "…"), False),
        (("free 9319 MiB", "…"), False),
        (SEEN[:3], False),
        ((), False),
    ],
)
def test_what_counts_as_shown(shown: tuple[str, ...], is_shown: bool) -> None:
    """Every figure counts; pids, versions and line breaks do not; `…` is for any lines."""
    assert TRANSCRIPTS.shows(shown, SEEN) is is_shown


PAGE = """\
# A page

<!-- file: notes/a.txt -->
```
one
```

<!-- run: exit=3 before="greeting=hello" -->
```console
$ cat notes/a.txt; echo $greeting $HOME
{first}
$ sh -c 'echo "a line
> 3 of 4 lines
> 5"; exit 3'
{second}
```
"""


def test_a_page_is_written_anew(tmp_path: Path) -> None:
    """Outputs are replaced, paths are the reader's, and what was left out stays left out."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(first="two", second="…\n9 of 4 lines\n…"), encoding="utf-8")
    ran = TRANSCRIPTS.run_page(page, os.environ, slow=False)
    anew = PAGE.format(first="one\nhello /home/me", second="…\n3 of 4 lines\n…")
    assert TRANSCRIPTS.rewritten(page, ran) == anew


def test_a_wrong_exit_code_is_an_error(tmp_path: Path) -> None:
    """Unless the mark names it."""
    page = tmp_path / "page.md"
    page.write_text("<!-- run -->\n```console\n$ false\n```\n", encoding="utf-8")
    with pytest.raises(TRANSCRIPTS.FailedError, match="false\nexit code 1"):
        TRANSCRIPTS.run_page(page, os.environ, slow=False)
