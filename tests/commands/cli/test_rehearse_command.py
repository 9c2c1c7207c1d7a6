"""`gpuconf rehearse` as its users call it: what it refuses at once, and whole rehearsals."""

from __future__ import annotations

import importlib.util
import json
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from tests.commands.cli.commands import BUILT, gpuconf
from tests.programs.card_clients import wait_until
from tests.programs.processes import Start, clean_environment, interruptible, run

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None

TRAINING = """
import sys
import keras, numpy as np
if "bug" in sys.argv:
    print("before the bug")
    raise KeyError("of the script")
model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(512, name="wide"),
                          keras.layers.Dense(8, name="last")])
model.compile("adam", "mse")
if "whole" in sys.argv:
    model.fit(np.zeros((2**20, 64), "float32"), np.zeros((2**20, 8), "float32"))
print("training starts")
model.fit(np.ones((4096, 64)), np.ones((4096, 8)), batch_size=1024, verbose=2)
model.save("saved.keras")
"""


def test_what_is_missing_is_no_verdict(tmp_path: Path) -> None:
    """Exit code 1 would say that it does not fit; without a compiler nobody knows."""
    environ = {"PATH": str(tmp_path)}
    done = run(gpuconf("rehearse", "--json", "--", "/bin/true"), tmp_path, environ=environ)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"]) == (4, "MissingDependencyError")
    assert "C++ compiler" in error["message"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_a_whole_rehearsal(tmp_path: Path) -> None:
    """It fits: output passed through, one report, a plot, a suggestion; no model was saved."""
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    command = gpuconf(
        *("rehearse", "--card", "3GiB", "--used", "500MiB", "--plot", "memory.svg"),
        *("--batch", "auto", "--profile", "shared-desktop", "--", sys.executable, "train.py"),
    )
    done = run(command, tmp_path, environ=BUILT, timeout_s=300)
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert told.startswith("training starts\n")
    for said in (
        "1 SIMULATED GPU of 3072 MiB, 500 MiB used by others, 450 MiB for the CUDA context",
        "profile shared-desktop, batch 1024",
        "fits: 3 of 4 steps of fit of sequential at train.py:13 ran, and the script to its end",
        "measured   batch 1024 → ",
        "batch      up to about 4096, which was measured: ",
        "; the data has no more examples than that",
        f"not written: {tmp_path / 'saved.keras'}",
        "Real: TensorFlow",
    ):
        assert said in told
    assert "wrote memory.svg" in done.stderr
    assert "simulated" in (tmp_path / "memory.svg").read_text(encoding="utf-8")
    assert not (tmp_path / "saved.keras").exists()
    # The profile's growth holds little; without it the whole limit would be held.
    (row,) = (line for line in told.splitlines() if line.startswith("GPU 0"))
    assert int(row.split()[-2]) < 600


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_an_interrupted_one_is_a_document_too(tmp_path: Path, start: Start) -> None:
    """One document that says why, the signal's exit code, and nothing of the script continues."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time\nopen('pid', 'w').write(f'{os.getpid()}\\n')\ntime.sleep(600)"
    )
    command = gpuconf("rehearse", "--card", "1GiB", "--json", "--", sys.executable, str(script))
    child = start(interruptible(command), clean_environment(tmp_path, BUILT))
    wait_until(lambda: "\n" in _text(tmp_path / "pid"), timeout_s=100)
    child.send_signal(signal.SIGINT)
    told, _ = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGINT
    document = json.loads(told)
    assert (document["verdict"], document["exit_code"]) == ("no verdict", child.returncode)
    assert "SIGINT" in document["because"]
    assert not Path(f"/proc/{int(_text(tmp_path / 'pid'))}").exists()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_a_reader_that_goes_away_is_no_verdict(tmp_path: Path) -> None:
    """`| head -1` closes the streams in the middle, or before the report: never 0, never 1."""
    noisy = "import sys\nfor _ in range(3000): print('x' * 100, file=sys.stderr)"
    (tmp_path / "noisy.py").write_text(noisy, encoding="utf-8")
    (tmp_path / "quiet.py").write_text("print('done')", encoding="utf-8")
    start = shlex.join(gpuconf("rehearse", "--card", "1GiB", "--", sys.executable))
    script = "; ".join(
        f"{start} {line}; echo ${{PIPESTATUS[0]}}"
        for line in ("noisy.py 2>&1 | head -1", "quiet.py 2>&1 | head -1", "quiet.py >/dev/full")
    )
    done = run(["bash", "-c", script], tmp_path, environ=BUILT)
    codes = [line for line in done.stdout.splitlines() if line.isdecimal()]
    assert codes[:2] == ["4", "4"], done.stdout + done.stderr
    # 120 is the script's own code, if Python notices the full disk only at its end.
    assert codes[2:] in (["4"], ["120"]), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_documents(tmp_path: Path) -> None:
    """--json: one document for a fit() that does not fit and for the script's own error."""
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    start = gpuconf("rehearse", "--card", "768MiB", "--json", "--", sys.executable, "train.py")

    def rehearsed(word: str) -> subprocess.CompletedProcess[str]:
        return run([*start, word], tmp_path, environ=BUILT, timeout_s=300)

    # At once, because TensorFlow waits 10 s before it is out of memory.
    with ThreadPoolExecutor() as pool:
        whole, bug = pool.map(rehearsed, ("whole", "bug"))

    assert whole.returncode == 1, whole.stderr[-3000:]
    document = json.loads(whole.stdout)
    assert document["schema_version"] == 1
    assert document["verdict"] == "does not fit"
    assert document["failure"]["node"] == "_EagerConst"
    assert document["failure"]["asked_bytes"] == 256 * MIB
    assert "as a whole" in document["suggestion"]["why_not"]
    assert document["gpus"][0]["limit_bytes"] == 93 * MIB

    assert bug.returncode == 4
    document = json.loads(bug.stdout)
    assert (document["verdict"], document["script_exit_code"]) == ("no verdict", 1)
    assert "KeyError" in document["because"]
    assert "before the bug" in bug.stderr
    assert "KeyError: 'of the script'" in bug.stderr
