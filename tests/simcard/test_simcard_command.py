"""``python -m gpuconf.simcard``: exit codes, signals, sharing a GPU, and manners."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuconf.simcard import Card
from gpuconf.simcard.__main__ import main
from tests.programs.card_clients import CLIENT, wait_until

_PREFIX = [sys.executable, "-m", "gpuconf.simcard"]
_FREE = "cuda.enter(); print(cuda.memory()[0] // MIB)"

pytestmark = [pytest.mark.usefixtures("libraries"), pytest.mark.slow]  # waits for programs


def _call(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*_PREFIX, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def _client(code: str) -> Sequence[str]:
    """A client without TensorFlow, whose figures are of memory alone."""
    return ("--context=0B", "--no-bridge", "--", sys.executable, str(CLIENT), code)


def test_a_command_runs_on_the_card_that_was_asked_for() -> None:
    """Sizes, number, name and compute capability reach the driver."""
    code = """
import ctypes
name = ctypes.create_string_buffer(99)
cuda.library.cuDeviceGetName(name, 99, 1)
cuda.enter(1); print(cuda.count(), cuda.memory()[0] // MIB, name.value.decode())
"""
    options = ("--total", "8GiB", "--used", "1 GiB", "--count", "2", "--name", "Simulated twin")
    done = _call("run", *options, *_client(code))
    assert (done.returncode, done.stdout) == (0, "2 7168 Simulated twin\n"), done.stderr


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_the_exit_code_is_the_commands(script: str, code: int) -> None:
    """Its own number, or 128 plus the signal that killed it, as in a shell."""
    assert _call("run", "--", "sh", "-c", script).returncode == code


def test_no_card_is_left_behind(tmp_path: Path) -> None:
    """The file is gone after the command, also when the command was killed."""
    note = tmp_path / "note"
    _call("run", "--", "sh", "-c", f'echo "$GPUCONF_SIMCARD_FILE" > {note}; kill -KILL $$')
    assert note.read_text().strip()
    assert not Path(note.read_text().strip()).parent.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_command(tmp_path: Path, number: signal.Signals) -> None:
    """What a supervisor sends to the wrapper ends the command, once, with its own clean-up."""
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    trap = f"trap 'echo x >> {ended}; exit 5' {number.name[3:]}"
    script = f"{trap}; touch {ready}; while :; do sleep 0.05; done"
    child = subprocess.Popen([*_PREFIX, "run", "--", "sh", "-c", script], start_new_session=True)
    try:
        wait_until(ready.exists)
        child.send_signal(number)
        assert child.wait(30) == 5
    finally:
        with contextlib.suppress(ProcessLookupError):  # none is left where all went well
            os.killpg(child.pid, signal.SIGKILL)
    assert ended.read_text() == "x\n"


def test_two_commands_share_a_kept_card(tmp_path: Path) -> None:
    """With --card the second command sees what the first holds, and the file stays."""
    file = tmp_path / "card"
    inner = f"{sys.executable} -m gpuconf.simcard run --card {file} -- {sys.executable} {CLIENT}"
    code = (
        "cuda.enter(); cuda.allocate(512 * MIB); "
        f"os.system({inner + ' ' + chr(34) + _FREE + chr(34)!r})"
    )
    done = _call("run", "--card", file, "--total", "2GiB", *_client(code))
    assert done.stdout == "1536\n", done.stderr
    assert Card(file).used_bytes() == 0


def test_a_kept_card_must_fit_the_options(tmp_path: Path) -> None:
    """Asking for another size than the file has is an error, not silently ignored."""
    file = tmp_path / "card"
    assert _call("run", "--card", file, "--total", "2GiB", "--", "true").returncode == 0
    done = _call("run", "--card", file, "--total", "3GiB", "--", "true")
    assert done.returncode == 2
    assert "total_bytes 2147483648" in done.stderr


def test_env_prints_lines_for_a_shell(tmp_path: Path) -> None:
    """A shell that evals them is on the GPU."""
    card = f"--total 1GiB --context 0B --card {tmp_path}/card"
    script = (
        f'eval "$({sys.executable} -m gpuconf.simcard env {card})" '
        f"&& {sys.executable} {CLIENT} '{_FREE}'"
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "1024\n", done.stderr


def test_show_tells_who_is_on_the_card(tmp_path: Path) -> None:
    """The GPU's name, what is used and by whom."""
    file = tmp_path / "card"
    show = f"{sys.executable} -m gpuconf.simcard show {file}"
    code = (
        "cuda.enter(); cuda.allocate(512 * MIB); print(os.getpid(), flush=True); "
        f"os.system({show!r})"
    )
    done = _call("run", "--card", file, "--total", "2GiB", "--used", "100MiB", *_client(code))
    pid, *shown = done.stdout.splitlines()
    assert "imulated" in shown[0]
    assert "612 MiB of 2048 MiB in use, including 100 MiB by the desktop" in shown[1]
    assert shown[2] == f"  process {pid}: 512 MiB"


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0])
def test_what_is_refused_says_what_would_do(
    capsys: pytest.CaptureFixture[str], empty_folder: Path, row: list[Any]
) -> None:
    """One line of error, one of hint, and its kind's exit code; nothing is left behind."""
    (empty_folder / "none").write_text("no GPU", "utf-8")
    words, said, hint, *code = row
    assert main(shlex.split(words)) == (code[0] if code else 2)
    assert [path.name for path in empty_folder.iterdir()] == ["none"]
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert out == ""
    assert first.startswith("gpuconf: error: ")
    assert said in first
    assert second.startswith("  hint: ")
    assert hint in second


def test_the_usage_of_run_has_the_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reads the first line of the help knows where the command goes."""
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert " -- COMMAND" in capsys.readouterr().out.splitlines()[0]


def test_help_says_that_the_card_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody can read it and expect a GPU."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "SIMULATED" in capsys.readouterr().out


def test_build_prints_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line is the folder to put on LD_LIBRARY_PATH, a second the kernel bridge's."""
    assert main(["build"]) == 0
    assert os.path.exists(capsys.readouterr().out.splitlines()[0] + "/libcuda.so.1")


@pytest.mark.slow
@pytest.mark.usefixtures("tensorflow_python")
def test_tensorflow_computes_unless_the_bridge_is_left_out() -> None:
    """``run`` brings the kernel bridge by itself; without it a kernel stops the program by name."""
    code = """
import tensorflow as tf
with tf.device("CPU"):
    one, other = tf.random.uniform([2, 3]), tf.random.uniform([3, 2])
with tf.device("GPU"):
    product = tf.matmul(one, other)
with tf.device("CPU"):
    print(product.device[-5:], bool(tf.reduce_all(product == tf.matmul(one, other))))
"""
    done = _call("run", "--", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "GPU:0 True\n"), done.stderr
    without = _call("run", "--no-bridge", "--", sys.executable, "-c", code)
    assert without.returncode != 0
    assert "MatMul" in without.stderr or "launched the GPU kernel" in without.stderr


@pytest.mark.parametrize(("version", "is_offered"), [("2.14.1", False), ("2.99.0", True)])
def test_no_bridge_is_a_way_out_for_newer_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_offered: bool
) -> None:
    """TensorFlow 2.14.1 was seen to find no GPU with it: its libraries have other names."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    about = tmp_path / f"tensorflow-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: tensorflow\nVersion: {version}\n")
    (about / "top_level.txt").write_text("tensorflow\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = _call("run", "--", sys.executable, "-c", "")
    assert f"has {version}" in done.stderr
    assert ("--no-bridge" in done.stderr) is is_offered
