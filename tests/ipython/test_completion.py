"""What TAB offers behind %gpuconf, and that IPython asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.ipython.completion import candidates
from gpuconf.ipython.magic import HELP
from tests.programs.processes import run_python


def offered(line: str) -> list[str]:
    """With the commands of the magic, in a notebook without models."""
    return candidates(line, HELP, {})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%gpuconf e", ["estimate", "explain"]),
        ("%gpuconf profile h", ["half-card"]),
        ("%gpuconf plan shared", ["shared-desktop"]),
        ("%gpuconf estimate model --profile virt", ["virtual-pair"]),
        ("%gpuconf plan --se", ["--set"]),
        ("%gpuconf profile --", ["--help", "--set"]),
        ("%gpuconf estimate --batch", ["--batch-size"]),
        ("%gpuconf ps --al", ["--all-users"]),
        ("%gpuconf docs reh", ["rehearse"]),
        ("%gpuconf profiles s", ["schema", "show"]),
        ("%gpuconf profiles show half", ["half-card"]),
        ("%gpuconf help doc", ["docs", "doctor"]),
        ("%gpuconf doctor driver.pres", ["driver.present"]),
        ("%gpuconf nonsense x", []),
        ("%gpuconf", []),
    ],
)
def test_the_words_that_may_come_next(line: str, expected: list[str]) -> None:
    """Those that begin as what stands there."""
    assert offered(line) == expected


def test_all_commands_behind_a_blank() -> None:
    """Nothing has been typed yet."""
    assert offered("%gpuconf ") == sorted(HELP)


def test_files_for_explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the beginning of their names, whatever is in them."""
    monkeypatch.chdir(tmp_path)
    for name in ("run[1].log", "run2.log", "other"):
        (tmp_path / name).touch()
    assert offered("%gpuconf explain run") == ["run2.log", "run[1].log"]
    assert offered("%gpuconf explain run[") == ["run[1].log"]


@pytest.mark.slow
def test_ipython_asks_for_them(tmp_path: Path) -> None:
    """Also without the percent sign, and no more once the extension is unloaded."""
    program = """
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance()
    def offered(line):
        with provisionalcompleter():
            return {found.text for found in shell.Completer.completions(line, len(line))}
    shell.run_line_magic("load_ext", "gpuconf")
    assert "profile" in offered("%gpuconf prof")
    assert "profile" in offered("gpuconf prof")
    assert "half-card" in offered("%gpuconf profile half")
    assert "--set" in offered("%gpuconf plan --s")
    shell.run_line_magic("unload_ext", "gpuconf")
    assert "profile" not in offered("%gpuconf prof")
    assert "gpuconf" not in shell.magics_manager.magics["line"]
    shell.run_line_magic("load_ext", "gpuconf")
    assert "profile" in offered("%gpuconf prof")
    """
    run_python(program, tmp_path)
