"""The page of --report: what stands in it, that nothing in it runs, and how it is written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gpuconf.commands.doctor.page import check_page_path, page_text, write_page
from gpuconf.errors import UsageError
from tests.commands.doctor.page.page_reports import CALM, FULL, HARMFUL
from tests.support.reporting.outline import Outline, check_harmless


@pytest.mark.parametrize("report", [FULL, CALM, HARMFUL], ids=["full", "calm", "harmful"])
def test_the_page_is_whole_and_loads_nothing(report: object) -> None:
    """Every tag is closed; no script, link, picture or handler stands in it, whatever it tells."""
    page = page_text(report)  # type: ignore[arg-type]
    check_harmless(page)
    assert "default-src 'none'" in page[: page.index("</style>")]


def test_everything_that_was_found_is_on_it() -> None:
    """The verdict, problems with fixes in their order, GPUs, versions, variables, all checks."""
    text = Outline(page_text(FULL)).text
    assert "1 problem, 1 warning, 1 check crashed" in text
    places = [text.index(finding.summary) for finding in FULL.problems]
    assert places == sorted(places)
    for finding in FULL.findings:
        assert finding.summary in text
        assert " ".join((finding.fix or "").split()) in text
    for words in ("MIG 1g.10gb", "2.21.0", "CUDA_VISIBLE_DEVICES", "shared-desktop", "0.3", "911"):
        assert words in text
    assert "gpuconf doctor --script train.py" in text
    assert "2026-11-21T09:14:00+01:00" in text
    assert "Removed from this page" in text
    assert "No problems found." in Outline(page_text(CALM)).text


def test_what_means_harm_is_shown_as_text() -> None:
    """A process may call itself what it likes; control and direction marks are taken out."""
    page = page_text(HARMFUL)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_every_style_has_a_rule() -> None:
    """Each class on the page is in its sheet, and dark paper has ink of its own."""
    page = page_text(FULL)
    sheet, body = page.split("</style>")
    used = {name for names in re.findall(r'class="([^"]*)"', body) for name in names.split()}
    assert {name for name in used if f".{name}" not in sheet} == set()
    assert {"red", "yellow", "magenta", "green", "cyan", "dim", "bold"} <= used
    papers = re.findall(r"^body \{ color: (\S+); background: (\S+);", sheet, re.MULTILINE)
    assert len(set(papers)) == 2


def test_what_is_refused_before_the_work(tmp_path: Path) -> None:
    """Another suffix, no folder, a folder for a file: one error with a hint."""
    check_page_path(str(tmp_path / "page.html"))
    (tmp_path / "dir.html").mkdir()
    for name in ("page.pdf", "page", "nosuch/page.html", "dir.html"):
        with pytest.raises(UsageError) as caught:
            check_page_path(str(tmp_path / name))
        assert caught.value.hint


def test_a_full_disk_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where writing fails half-way, the old page stays and no unfinished one lies about."""
    page = tmp_path / "page.html"
    page.write_text("old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(UsageError, match="No space left"):
        write_page(FULL, str(page))
    assert page.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_the_file_is_replaced_in_place(tmp_path: Path) -> None:
    """A page that is there keeps its permissions, and a link to it stays one."""
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.touch(mode=0o600)
    link.symlink_to(page)
    write_page(FULL, str(link))
    assert link.is_symlink()
    assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert page.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.html", "page.html"]
