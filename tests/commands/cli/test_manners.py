"""What people type before they have read anything: help, version, Tab, ^C, a pipe."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from gpuconf import __version__
from gpuconf.support.command_line import COMMANDS
from tests.commands.cli.commands import ROOT, gpuconf, run_commands
from tests.programs.card_clients import wait_until
from tests.programs.processes import Start, finding, run, run_python


def test_words_that_other_programs_have(tmp_path: Path) -> None:
    """``help``, ``help COMMAND`` and ``version`` are what the options are."""
    helped, plain, plan, of_plan, version, short = run_commands(
        tmp_path, ["help"], ["--help"], ["help", "plan"], ["plan", "--help"], ["version"], ["-V"]
    )
    assert helped.out == plain.out
    assert plan.out == of_plan.out
    assert version.out == short.out == f"gpuconf {__version__}\n"
    assert {each.code for each in (helped, plain, plan, of_plan, version, short)} == {0}


def test_a_profile_is_named_in_both_ways(tmp_path: Path) -> None:
    """As in `gpuconf rehearse --profile`; two different ones are an error."""
    option, word, both = run_commands(
        tmp_path,
        ["plan", "--profile", "cpu-only"],
        ["plan", "cpu-only"],
        ["plan", "cpu-only", "--profile", "half-card"],
    )
    assert (option.code, option.out) == (0, word.out)
    assert both.code == 2
    assert "two profiles were given: cpu-only and half-card" in both.err


def test_the_pages_are_there_offline(tmp_path: Path) -> None:
    """Every page, by name; a slip is put right; pipes get Markdown; the wheel has them all.

    What a block shows is written above it: the name of a file, the GPU of a transcript.
    """
    listed, page, cause, howto, wrong = run_commands(
        tmp_path,
        ["docs"],
        ["docs", "design"],
        ["docs", "causes/host-oom"],
        ["docs", "howto/two-jobs-on-one-card"],
        ["docs", "reherse"],
    )
    folder = ROOT / "docs"
    pages = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")}
    assert {line.split()[0] for line in listed.out.splitlines()} == pages
    marked = (folder / "design.md").read_text(encoding="utf-8")
    assert page.out == re.sub(r"^<!-- .* -->\n", "", marked, flags=re.MULTILINE)
    assert "*The file third.yaml:*\n\n```yaml\n" in howto.out
    assert "*On a simulated GPU of 11264 MiB with 1945 MiB in use:*\n\n```console\n" in howto.out
    assert "<!--" not in howto.out
    assert cause.out.startswith("# The host ran out of RAM\n")
    assert wrong.code == 2
    assert "hint: gpuconf docs rehearse" in wrong.err
    packed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in pages:  # whole folders, or page by page
        folder_of_it = name.rpartition("/")[0]
        entries = (f"docs/{name}.md", f"docs/{folder_of_it}")
        assert any(f'"{each}" = "gpuconf/{each}"' in packed for each in entries), name


def completed(line: str, folder: Path) -> list[str]:
    """What the shell is told could end ``line``, by the protocol of argcomplete."""
    pytest.importorskip("argcomplete")
    program = (
        "import os, sys\n"
        "os.dup2(1, 8)\n"
        "os.dup2(2, 9)\n"
        "sys.argv = ['gpuconf']\n"
        "from gpuconf.commands.cli.main import main\n"
        "main([])\n"
    )
    environ = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_IFS": "\n",
        "IFS": "\n",
        "COMP_TYPE": "9",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    return [word.strip() for word in run_python(program, folder, environ=environ).split("\n")]


def test_tab(tmp_path: Path) -> None:
    """Commands, options of one command, profiles where one is wanted, and files."""
    (tmp_path / "train.log").write_text("")
    assert set(COMMANDS) <= set(completed("gpuconf ", tmp_path))
    assert completed("gpuconf rehearse --pr", tmp_path) == ["--profile"]
    assert completed("gpuconf plan --profile half", tmp_path) == ["half-card"]
    assert completed("gpuconf explain tra", tmp_path) == ["train.log"]
    assert completed("gpuconf docs reh", tmp_path) == ["rehearse"]
    codes = run_commands(tmp_path, *(["completion", shell] for shell in ("bash", "zsh", "fish")))
    assert all(each.code == 0 and "gpuconf" in each.out for each in codes)


def test_interrupted_while_it_starts(tmp_path: Path, start: Start) -> None:
    """^C during the imports ends it silently: no line of a traceback, exit code 130."""
    (tmp_path / "shlex.py").write_text(
        "import os, pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(60)\n"
    )
    environ = {**os.environ, **finding(tmp_path)}
    child = start([sys.executable, "-m", "gpuconf", "doctor"], environ)
    wait_until((tmp_path / "importing").exists)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=30)
    assert (child.returncode, output, child.log) == (130, "", "")


def test_the_simulated_card_is_a_command(tmp_path: Path) -> None:
    """Its words, --help included, go to its own command line."""
    done = run(gpuconf("simcard", "run", "--help"), tmp_path)
    module = run([sys.executable, "-m", "gpuconf.simcard", "run", "--help"], tmp_path)
    assert (done.returncode, done.stdout) == (0, module.stdout)
    wrong = run(gpuconf("simcard", "rn"), tmp_path)
    assert wrong.returncode == 2
    assert "does not recognize 'rn'" in wrong.stderr
