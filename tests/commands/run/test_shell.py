"""`gpuconf shell`: the user's own shell, whose startup files cannot take the plan away."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuconf.commands.run import shell
from gpuconf.injected import SITE
from gpuconf.machine.leases.files import is_locked
from gpuconf.simcard import Card
from tests.commands.run import on_card
from tests.programs.processes import run
from tests.programs.terminals import OnTerminal

pytestmark = pytest.mark.slow  # starts and waits for many programs

SHELL = (sys.executable, "-m", "gpuconf", "shell", "--profile", "half-card")
NASTY = {"A": 'it\'s \\ "$HOME" `id`\n two', "B": "", "C": "'", "D": None}
# Says in one line what a Python started here would find.
STATE = (
    f"{sys.executable} -c \"import os, sys; e = os.environ; print(1, 'state', "
    "'_gpuconf_injected_site' in sys.modules, e.get('PYTHONPATH', '').split(':')[1:], "
    "e.get('CUDA_VISIBLE_DEVICES'), e.get('GPUCONF_SHELL'), "
    "[name for name in e if name.startswith('_GPUCONF')])\"\n"
).encode()
HELD = r"1 state True \['/mine'\] None half-card \[\]"
STARTUP = """
export PYTHONPATH=/mine CUDA_VISIBLE_DEVICES=7 GPUCONF_RUN=none
alias hi='echo from an al''ias'
"""


@pytest.fixture
def environ(card: Card, tmp_path: Path) -> dict[str, str]:
    """What makes a program see the GPU, and a home of its own."""
    (tmp_path / "temporary").mkdir()
    return {**on_card.environ(card), "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "temporary")}


def test_bash_is_held_whatever_its_startup_files_set(
    card: Card, tmp_path: Path, environ: dict[str, str]
) -> None:
    """The user's own file is read; what it took away is set again, and nothing is left behind."""
    (tmp_path / ".bashrc").write_text(STARTUP + "PS1='> '; PROMPT_COMMAND='true; '\n")
    with OnTerminal(
        [*SHELL, "--shell", "/bin/bash"], tmp_path, columns=200, environ=environ
    ) as terminal:
        terminal.read_until(r"\(half-card\) > ")
        assert [is_locked(str(lease)) for lease in on_card.leases(card)] == [True]
        terminal.press(b"hi\n")
        terminal.read_until("from an alias")
        terminal.press(STATE)
        terminal.read_until(HELD)
        terminal.press(b"export PYTHONPATH=/mine; (exit 5)\n")
        terminal.read_until(r"PYTHONPATH had been set without.*\s+.*\(half-card\) > $")
        terminal.press(b"echo code $?\n")
        terminal.read_until("code 5")
        terminal.press(STATE)
        assert len(terminal.read_until(rf"{HELD}[\s\S]*{HELD}").split("had been set")) == 2
        terminal.press(b"PS1='new> '\n")
        terminal.read_until(r"\(half-card\) new> ")
        terminal.press(b"ls -l /proc/$$/fd; GPUCONF_DISABLE_PROMPT=1; PS1='plain> '\n")
        terminal.read_until(r"[\nh]plain> $")
        terminal.press(b"\x04")
        assert terminal.end() == 0
    opened = [line.partition(" -> ")[2] for line in terminal.lines if " -> " in line]
    others = [each for each in opened if not each.startswith("/dev/pts/")]
    assert [Path(each).name.partition(".")[0] for each in others] == ["lease"]
    assert list((tmp_path / "temporary").iterdir()) == []
    assert [is_locked(str(lease)) for lease in on_card.leases(card)] in ([], [False])


def test_a_posix_shell_is_held(tmp_path: Path, environ: dict[str, str]) -> None:
    """/bin/sh reads the user's $ENV and then ours; the exit code is the shell's."""
    (tmp_path / "own").write_text(STARTUP + "PS1='> '\n")
    asked = {**environ, "ENV": str(tmp_path / "own"), "SHELL": "/bin/sh"}
    with OnTerminal(SHELL, tmp_path, columns=200, environ=asked) as terminal:
        terminal.read_until(r"\(half-card\) > ")
        terminal.press(b"hi\n")
        terminal.read_until("from an alias")
        terminal.press(STATE)
        terminal.read_until(HELD)
        terminal.press(f"{sys.executable} -m gpuconf shell; echo code $?\n".encode())
        terminal.read_until(r"already a gpuconf shell \(half-card\)[\s\S]*code 2")
        terminal.press(b"echo own=$ENV; exit 3\n")
        assert terminal.end() == 3
    assert f"own={tmp_path}/own" in terminal.raw


def test_a_shell_that_is_not_known_here(tmp_path: Path, environ: dict[str, str]) -> None:
    """It is started as it is, under the plan, with a word about what cannot be seen to."""
    other = tmp_path / "xonsh"
    other.write_text("#!/bin/sh\necho started with $# words: $PYTHONPATH\n")
    other.chmod(0o755)
    with OnTerminal(
        [*SHELL, "--shell", str(other)], tmp_path, columns=300, environ=environ
    ) as terminal:
        assert terminal.end() == 0
    assert "gpuconf does not support xonsh" in terminal.raw
    assert f"started with 0 words: {SITE}" in terminal.raw


def test_without_a_plan_the_shell_is_as_ever(tmp_path: Path, environ: dict[str, str]) -> None:
    """Where gpuconf is switched off, the user's file is read and nothing set again."""
    (tmp_path / ".bashrc").write_text(STARTUP + "PS1='> '\n")
    asked = {**environ, "GPUCONF_DISABLE": "1", "SHELL": "/bin/bash"}
    with OnTerminal(SHELL, tmp_path, columns=200, environ=asked) as terminal:
        terminal.read_until(r"\n(\x1b\[\?2004h)?> ")
        terminal.press(b"echo $PYTHONPATH, $CUDA_VISIBLE_DEVICES, $GPUCONF_RUN; exit\n")
        terminal.read_until("/mine, 7, none")
        assert terminal.end() == 0


def test_without_a_terminal(tmp_path: Path, environ: dict[str, str]) -> None:
    """A usage error with the command for scripts; nothing has been leased or started."""
    done = run([*SHELL, "--shell", "/bin/bash"], tmp_path, environ=environ)
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr
    assert "gpuconf run -- bash" in done.stderr


def test_which_shell() -> None:
    """What is requested, then $SHELL, then a shell that started us, then /bin/sh."""
    assert shell.choose_shell("fish", {"SHELL": "/bin/zsh"}, "/bin/dash") == "fish"
    assert shell.choose_shell(None, {"SHELL": "/bin/zsh"}, "/bin/dash") == "/bin/zsh"
    assert shell.choose_shell(None, {}, "/bin/dash") == "/bin/dash"
    assert shell.choose_shell(None, {}, "/usr/bin/python3") == "/bin/sh"
    assert shell.choose_shell(None, {}, None) == "/bin/sh"


def test_each_shell_has_its_startup_file() -> None:
    """The words and variables of each; every file that they name is in the package."""
    assert shell.words_of("/bin/bash")[0::2] == ["/bin/bash", str(shell._STARTUP / "bash.rc")]
    assert shell.words_of("/bin/zsh") == ["/bin/zsh", "-i"]
    assert shell.words_of("/usr/bin/tcsh") == ["/usr/bin/tcsh"]
    assert str(shell._STARTUP / "fish.rc") in shell.words_of("fish")[-1]
    zsh = shell.variables_for("/bin/zsh", SITE, {"ZDOTDIR": "/own"})
    assert zsh == {"ZDOTDIR": str(shell._STARTUP / "zsh"), "_GPUCONF_ZDOTDIR": "/own"}
    files = {str(path.relative_to(shell._STARTUP)) for path in shell._STARTUP.rglob("*.*")}
    assert files == {"bash.rc", "posix.rc", "fish.rc", "zsh/.zshenv"}


def test_values_survive_the_quoting_of_a_shell(tmp_path: Path) -> None:
    """Whatever is in them; what was unset is unset, and a name cannot write into the prompt."""
    text = shell.plan_in_shell(NASTY, "half\\$(id)`%-card", "/a b/site", is_fish=False)
    show = "import os, json; print(json.dumps({k: os.environ.get(k) for k in 'ABCD'}))"
    script = f'{text}\n{sys.executable} -c "{show}"; printf %s "$_gpuconf_site$_gpuconf_mark"'
    done = run(["/bin/sh", "-c", script], tmp_path, environ={"D": "set"})
    values, _, own = done.stdout.partition("\n")
    assert json.loads(values) == NASTY
    assert own == "/a b/site(halfid-card) "


def test_values_in_fish() -> None:
    """fish knows two escapes between single quotes, and sets exported variables with -gx."""
    plan = shell.plan_in_shell({"A": "it's \\", "D": None}, "p", "/s", is_fish=True)
    lines = plan.splitlines()
    assert lines[-2:] == ["set -gx A 'it\\'s \\\\'", "set -e D"]
    assert lines[:2] == ["set -g _gpuconf_site '/s'", "set -g _gpuconf_mark '(p) '"]
