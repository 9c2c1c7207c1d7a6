"""The command as a process: exit codes, help, color, and streams that are closed or full."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf import __version__
from tests.commands.cli.commands import gpuconf, run_commands
from tests.programs.processes import Nvml, run
from tests.programs.terminals import OnTerminal

ESCAPE = "\x1b["
# What the help of some commands must say.
IN_HELP = {
    "demo": ["The GPU is simulated"],
    "estimate": ["examples:", "exit codes: 0", "--plot FILE", "module:function", "no GPU"],
    "explain": ["examples:", "exit codes: 0", "--plot FILE", "gpuconf explain -"],
    "rehearse": ["SIMULATED", "examples:", "exit codes: 0 it fits 1", "no model is saved"],
}


def test_help_of_every_command(tmp_path: Path) -> None:
    """Each says what it does and what it takes, within 80 columns, and exits 0."""
    commands = [
        [],
        ["plan"],
        ["profiles"],
        *(["profiles", action] for action in ("list", "show", "check", "schema")),
        ["init"],
        ["demo"],
        ["rehearse"],
        ["doctor"],
        ["ps"],
        ["explain"],
        ["estimate"],
    ]
    helps = run_commands(tmp_path, *([*command, "--help"] for command in commands))
    for command, done in zip(commands, helps, strict=True):
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"usage: {' '.join(['gpuconf', *command])} ")
        assert max(map(len, done.out.splitlines())) <= 80
        paragraphs = done.out.split("\n\n")
        assert len(paragraphs) >= 3, "a description, and not the options alone"
        assert not paragraphs[1].startswith(("options", "positional"))
    texts = {
        command[0]: " ".join(done.out.split())
        for command, done in zip(commands[1:], helps[1:], strict=True)
    }
    for name, parts in IN_HELP.items():
        assert [part for part in parts if part not in texts[name]] == [], name
    for name in (*(command[0] for command in commands if command), "import gpuconf.auto"):
        assert name in helps[0].out


def test_usage_errors(tmp_path: Path) -> None:
    """Exit code 2, one sentence and the help that explains it; JSON where it was requested."""
    results = run_commands(
        tmp_path,
        ["paln"],
        ["plan", "--jsno"],
        ["plan", "--color", "sometimes"],
        ["--verison"],
        ["completion"],
        ["profiles", "show"],
        ["profiles", "show", "--json"],
    )
    for done in results:
        assert done.code == 2
        assert done.err.startswith("gpuconf: error: ")
        assert "  hint: " in done.err
        assert " --help` shows" in done.err
    assert "did you mean `gpuconf plan`?" in results[0].err
    assert "did you mean `gpuconf plan --json`?" in results[1].err
    assert "did you mean `gpuconf --version`?" in results[3].err
    assert "bash|zsh|fish" in results[4].err
    assert [done.out for done in results[:-1]] == [""] * 6
    assert results[-1].document["error"]["type"] == "UsageError"


def test_no_command_at_all(tmp_path: Path) -> None:
    """Bare `gpuconf` is a question: the help, on stderr, and exit code 2."""
    (done,) = run_commands(tmp_path, [])
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: gpuconf")
    assert "profiles" in done.err


def test_the_process_and_its_exit_code(tmp_path: Path) -> None:
    """`python -m gpuconf` is the command, and hands on the code."""
    done = run(gpuconf("--version"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"gpuconf {__version__}\n", "")
    assert run(gpuconf("profiles", "check", "no-such"), tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [("KeyboardInterrupt", 130, ""), ("ZeroDivisionError", 3, "this is a bug in gpuconf")],
)
def test_what_else_may_end_a_command(raised: str, code: int, words: str, tmp_path: Path) -> None:
    """^C is 130 without a traceback; a bug is 3, with one and the plea to report it."""
    program = f"""
import sys
from gpuconf.commands.cli.main import main
class Stream:
    encoding = "utf-8"
    def isatty(self): return False
    def flush(self): pass
    def write(self, text): raise {raised}("as if by chance")
stdout, sys.stdout = sys.stdout, Stream()
code = main(["profiles", "list"])
sys.stdout = stdout
print(code)
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    done = run([*gpuconf()[:-2], str(file)], tmp_path)
    assert done.stdout == f"{code}\n"
    assert words in done.stderr
    assert ("Traceback" in done.stderr) == bool(words)


def _shell(command: str, folder: Path, machine: dict[str, str]) -> tuple[str, str]:
    """stdout and stderr of a line of bash in which ``gpuconf`` is the command."""
    script = f'gpuconf() {{ {" ".join(gpuconf())} "$@"; }}; {command}'
    done = run(["bash", "-c", script], folder, environ=machine)
    return done.stdout, done.stderr


@pytest.mark.slow
def test_readers_that_go_away(tmp_path: Path, nvml: Nvml) -> None:
    """`| head` and `| true` get what they want, and nothing is said of it."""
    script = """
        gpuconf plan | head -n 1; echo ${PIPESTATUS[0]}
        gpuconf plan --json | true; echo ${PIPESTATUS[0]}
        gpuconf plan 2>&1 no-such | true; echo ${PIPESTATUS[0]}
        gpuconf --help | true; echo ${PIPESTATUS[0]}
        """
    out, err = _shell(script, tmp_path, nvml("desktop"))
    first, *codes = out.splitlines()
    assert first.startswith("profile shared-desktop")
    assert codes[:2] == ["0", "0"]
    assert codes[2] in ("0", "2")  # by whether the reader was gone before the error was written
    assert codes[3] == "0"
    assert err == ""


@pytest.mark.slow
def test_closed_and_full_streams(tmp_path: Path, nvml: Nvml) -> None:
    """Without stdout or stderr a command does its work; a full disk is said and exits 1."""
    script = """
        gpuconf plan --json 2>&- | wc -l; echo ${PIPESTATUS[0]}
        gpuconf plan no-such 2>&-; echo $?
        gpuconf plan >&-; echo $?
        gpuconf plan >&- 2>&-; echo $?
        gpuconf plan >/dev/full; echo $?
        gpuconf plan --json >/dev/full; echo $?
        """
    out, err = _shell(script, tmp_path, nvml("desktop"))
    count, *codes = out.split()
    assert int(count) > 10
    assert codes == ["0", "2", "0", "0", "1", "1"]
    assert err == ("gpuconf: error: the output cannot be written: No space left on device\n" * 2)


@pytest.mark.slow
def test_color_and_width(tmp_path: Path) -> None:
    """Color on a terminal, unless set otherwise; a table folds to the terminal's width."""
    (tmp_path / "gpuconf.yaml").write_text("gpus: none\n")

    def on_terminal(*words: str, **environ: str) -> OnTerminal:
        """The command on a terminal of 80 columns, once it has ended."""
        environ = {"NO_COLOR": "", **environ}
        with OnTerminal(gpuconf(*words), tmp_path, columns=80, environ=environ) as terminal:
            assert terminal.end() == 0, terminal.raw
        return terminal

    assert ESCAPE in on_terminal("plan").raw
    assert ESCAPE not in on_terminal("plan", NO_COLOR="1").raw
    assert ESCAPE not in on_terminal("plan", TERM="dumb").raw
    assert ESCAPE not in on_terminal("plan", "--color", "never", FORCE_COLOR="1").raw
    assert max(map(len, on_terminal("--color=never", "profiles", "list").lines)) == 80
    assert ESCAPE not in run(gpuconf("plan"), tmp_path).stdout
    assert ESCAPE in run(gpuconf("plan"), tmp_path, environ={"FORCE_COLOR": "1"}).stdout
    both = {"FORCE_COLOR": "1", "NO_COLOR": "1"}
    assert ESCAPE not in run(gpuconf("plan"), tmp_path, environ=both).stdout
    assert ESCAPE in run(gpuconf("plan", "--color", "always"), tmp_path, environ=both).stdout
