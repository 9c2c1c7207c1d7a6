"""Commands that cannot be started: why, and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.errors import UsageError
from gpuconf.support.children.starting import failed_start, find_command


@pytest.mark.parametrize(
    ("error", "says", "exit_code"),
    [
        (FileNotFoundError(2, "No such file"), "'train': it was not found", 127),
        (PermissionError(13, "Permission denied"), "'train': no permission to execute it", 126),
        (OSError(8, "Exec format error"), "'train': Exec format error", 126),
    ],
)
def test_why_the_kernel_did_not_start_it(error: OSError, says: str, exit_code: int) -> None:
    """In words, and with a shell's exit code."""
    made = failed_start("train", error)
    assert made.message == f"cannot start {says}"
    assert made.exit_code == exit_code


def test_what_could_not_be_started(tmp_path: Path) -> None:
    """Found before anything is done: each with its reason, and a hint that helps."""
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    script = str(tmp_path / "train.py")
    for name, says, hint, exit_code in (
        ("no-such", "it was not found", "check the command after --", 127),
        ("A=1", "it is a variable, not a command", "put A=1 before the whole command line", 2),
        (str(tmp_path / "folder"), "it is a folder", "check the command after --", 126),
        (
            script,
            "no permission to execute it",
            f"start it with its Python: -- python {script}",
            126,
        ),
        ("train.py", "no permission to execute it", "check the command after --", 126),
    ):
        with pytest.raises(UsageError, match=says) as caught:
            find_command(name, {"PATH": str(tmp_path)})
        assert caught.value.exit_code == exit_code, name
        assert (caught.value.hint or "").startswith(hint), name
    assert find_command(sys.executable, {}) == sys.executable


def test_a_script_without_its_interpreter(tmp_path: Path) -> None:
    """It is there; what its first line names is not.  Windows line endings are the usual cause."""
    for ending, says, hint in (
        ("\r\n", "the file has Windows line endings", "sed -i 's/\\r$//' "),
        ("\n", "the interpreter in its first line was not found", "head -n 1 "),
    ):
        script = tmp_path / "train.sh"
        script.write_bytes(f"#!/bin/no-such-bash{ending}echo trained{ending}".encode())
        script.chmod(0o755)
        with pytest.raises(FileNotFoundError) as refused:
            subprocess.run([script], check=False)
        made = failed_start(str(script), refused.value)
        assert says in made.message
        assert (made.exit_code, made.hint) == (126, f"{hint}{script}")
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    made = failed_start(str(program), FileNotFoundError(2, "No such file"))
    assert "it was not found" in made.message, "no permission to execute it"
    program.chmod(0o755)
    made = failed_start(str(program), FileNotFoundError(2, "No such file"))
    assert ("its loader was not found" in made.message, made.exit_code) == (True, 126)
    script.write_bytes(b"#!/bin/sh\r\necho trained\r\n")
    subprocess.run(f"sed -i 's/\\r$//' {script}", shell=True, check=True)
    assert subprocess.run([script], capture_output=True, check=True).stdout == b"trained\n"
