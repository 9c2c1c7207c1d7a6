"""The page in a real browser: it is drawn, the console is silent, nothing is asked of a network.

With GPUCONF_TEST_PICTURES=FOLDER the pictures stay there, to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuconf.doctor.page import write_page
from gpuconf.doctor.report import Report
from tests.doctor.page.browser import Visit, browser
from tests.doctor.page.page_reports import CALM, FULL, HARMFUL, SCRIPT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser() is None, reason="needs Chromium, such as Debian's package"),
]
_SIZES = {"wide": "1100,2600", "narrow": "400,4600"}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder for pictures."""
    folder = Path(os.environ.get("GPUCONF_TEST_PICTURES", tmp_path))
    folder.mkdir(exist_ok=True, parents=True)
    return folder


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", _SIZES)
def test_it_is_drawn(tmp_path: Path, pictures: Path, size: str, dark: bool) -> None:
    """In both schemes and on a telephone; the picture is no empty page."""
    page = tmp_path / "page.html"
    write_page(FULL, str(page))
    picture = pictures / f"full-{size}-{'dark' if dark else 'light'}.png"
    options = (f"--window-size={_SIZES[size]}", f"--screenshot={picture}")
    visit = Visit(page, tmp_path, *options, dark=dark)
    assert (visit.console, visit.requests) == ([], [])
    assert picture.stat().st_size > 30_000


@pytest.mark.parametrize("report", [CALM, HARMFUL], ids=["calm", "harmful"])
def test_nothing_in_it_runs(tmp_path: Path, pictures: Path, report: Report) -> None:
    """What a process calls itself is text on the page, in the browser's own reading too."""
    page = tmp_path / "page.html"
    write_page(report, str(page))
    visit = Visit(page, tmp_path, "--dump-dom")
    assert (visit.console, visit.requests) == ([], [])
    assert "<script" not in visit.stdout
    assert "<img" not in visit.stdout
    name = "calm" if report is CALM else "harmful"
    Visit(page, tmp_path, "--window-size=1100,1400", f"--screenshot={pictures / name}.png")


def test_it_prints(tmp_path: Path, pictures: Path) -> None:
    """As PDF, for those who file bugs on paper."""
    page, paper = tmp_path / "page.html", pictures / "full.pdf"
    write_page(FULL, str(page))
    Visit(page, tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF")


def test_the_check_can_fail(tmp_path: Path) -> None:
    """A page with that script in it is caught, by the console and by the network."""
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><title>x</title>{SCRIPT}", encoding="utf-8")
    visit = Visit(page, tmp_path, "--dump-dom", "--virtual-time-budget=2000")
    assert visit.console
    assert visit.requests == ["http://127.0.0.1:9/"]
