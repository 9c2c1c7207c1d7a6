"""The site: it builds without a warning, fetches nothing, and every page is in its navigation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.support.command_line import COMMANDS
from tests.commands.cli.commands import ROOT

# What a page loads by itself when it is opened; links are followed by readers alone.
_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"([^\"]+)\"")
_FETCHED = re.compile(r"@import|url\(\s*[\"']?(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make site` builds it: each broken link, anchor and reference is an error."""
    for name in ("furo", "sphinx_copybutton"):
        pytest.importorskip(name, reason="`make site` installs what builds the site")
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "-q", "-b", "html"]
    words += ["-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / "html")]
    built = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=600
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_page_is_built(site: Path) -> None:
    """Of the Markdown pages none is left out, and none is outside the navigation (a warning)."""
    pages = {file.relative_to(ROOT / "docs") for file in (ROOT / "docs").rglob("*.md")}
    assert [page for page in pages if not (site / page.with_suffix(".html")).exists()] == []


@pytest.mark.slow
def test_nothing_is_fetched(site: Path) -> None:
    """No font, script, style or picture comes from another server, so it reads offline too."""
    for page in site.rglob("*.html"):
        loaded = _LOADED.findall(page.read_text("utf-8"))
        outside = [address for address in loaded if re.match(r"(?:https?:)?//", address)]
        assert outside == [], page
    for style in site.rglob("*.css"):
        assert _FETCHED.search(style.read_text("utf-8")) is None, style


@pytest.mark.slow
def test_marks_are_for_readers(site: Path) -> None:
    """A block that no test runs shows the reason; one on a GPU, which GPU.

    Its button copies the commands, without prompts and outputs.
    """
    page = (site / "howto" / "keras-2018.html").read_text("utf-8")
    assert '<p class="mark">Not run by the tests: it needs TensorFlow 1.8 and Python 3.6' in page
    copied = (site / "_static" / "copybutton.js").read_text("utf-8")
    assert "formatCopyText(text, '\\\\$ |> ', true, true, true, false," in copied
    page = (site / "how-a-limit-is-planned.html").read_text("utf-8")
    assert '<p class="mark">On a simulated GPU of 11264 MiB with 1945 MiB in use</p>' in page


@pytest.mark.slow
def test_the_help_of_every_command_is_shown(site: Path) -> None:
    """The page in git has none of it; the site adds it, so a change of --help needs no commit."""
    page = (site / "reference" / "commands.html").read_text("utf-8")
    assert [name for name in COMMANDS if f'id="gpuconf-{name}"' not in page] == []
    written = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    assert "--processes" in page
    assert "--processes" not in written


@pytest.mark.slow
def test_the_public_names_are_described(site: Path) -> None:
    """Every name of `gpuconf.__all__` and of its packages', and defaults as they are written."""
    import gpuconf
    import gpuconf.callbacks
    import gpuconf.images
    import gpuconf.ray

    page = (site / "reference" / "python.html").read_text("utf-8")
    assert "environ=os.environ, " in re.sub(r"<[^>]+>", "", page)
    modules = (gpuconf, gpuconf.images, gpuconf.callbacks, gpuconf.ray)
    names = {f"{each.__name__}.{name}" for each in modules for name in each.__all__}
    assert [name for name in sorted(names) if f'id="{name}"' not in page] == ["gpuconf.__version__"]
