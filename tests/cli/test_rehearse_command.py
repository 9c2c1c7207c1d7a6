"""`gpuconf rehearse` as its users call it: what it refuses at once, and whole rehearsals."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from commands import gpuconf, run_commands
from processes import run

from gpuconf.units import MIB

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None

# What was built for this user's own runs serves these too.
BUILT = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}

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
model.fit(np.ones((512, 64)), np.ones((512, 8)), batch_size=64, verbose=2)
model.save("saved.keras")
"""


def test_what_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """Exit code 2, one error with a hint, and the word of the user that was wrong."""
    here = str(tmp_path / "nosuch" / "a.png")
    cases = {
        "no command": ["rehearse", "--card", "8GiB"],
        "--steps": ["rehearse", "--steps", "0", "--", "true"],
        "'8'": ["rehearse", "--card", "8", "--", "true"],
        "nothing is left": ["rehearse", "--card", "1GiB", "--used", "1GiB", "--", "true"],
        "PNG or SVG": ["rehearse", "--plot", "a.jpg", "--", "true"],
        "no folder": ["rehearse", "--plot", here, "--", "true"],
        "nosuch": ["rehearse", "--profile", "nosuch", "--", "true"],
        "--batch": ["rehearse", "--batch", "x", "--", "true"],
    }
    for (said, _), done in zip(cases.items(), run_commands(tmp_path, *cases.values()), strict=True):
        assert done.code == 2, said
        assert said in done.err
        assert "hint:" in done.err
        assert done.out == ""


def test_help_tells_what_a_user_must_know(tmp_path: Path) -> None:
    """Examples, exit codes, that it is simulated, and that the script is ended."""
    (done,) = run_commands(tmp_path, ["rehearse", "--help"])
    assert done.code == 0
    for said in ("SIMULATED", "examples:", "exit codes: 0 it fits; 1", "no model is saved"):
        assert said in done.out


def test_what_is_missing_is_no_verdict(tmp_path: Path) -> None:
    """Exit code 1 would say that it does not fit; without a TensorFlow nobody knows."""
    done = run(
        gpuconf("rehearse", "--json", "--", "/bin/true"), tmp_path, environ={"PATH": str(tmp_path)}
    )
    if HAS_TENSORFLOW:  # then it is the compiler that the empty PATH lacks, or nothing
        assert done.returncode not in (0, 1)
    assert "error" in json.loads(done.stdout) or done.returncode == 4


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_a_whole_rehearsal(tmp_path: Path) -> None:
    """It fits: output passed through, one report, a picture, a suggestion; no model was saved."""
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    command = gpuconf(
        *("rehearse", "--card", "3GiB", "--used", "500MiB", "--plot", "memory.svg"),
        *("--profile", "shared-desktop", "--", sys.executable, "train.py"),
    )
    done = run(command, tmp_path, environ=BUILT, timeout_s=300)
    told = done.stdout
    assert done.returncode == 0, told + done.stderr
    assert told.startswith("training starts\n")
    for said in (
        "1 SIMULATED card of 3072 MiB, 500 MiB used by others, 450 MiB for the CUDA context",
        "profile shared-desktop, batch 64",
        "fits: 3 training steps ran; at the peak",
        "measured   batch 32 → ",
        "Real: TensorFlow",
        "picture: memory.svg",
    ):
        assert said in told
    assert "simulated" in (tmp_path / "memory.svg").read_text(encoding="utf-8")
    assert not (tmp_path / "saved.keras").exists()
    # The profile's growth holds little; without it the whole limit would be held.
    (row,) = (line for line in told.splitlines() if line.startswith("GPU 0"))
    assert int(row.split()[-2]) < 600


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_documents(tmp_path: Path) -> None:
    """--json: one document for a fit() that does not fit and for the script's own error."""
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    start = gpuconf("rehearse", "--card", "768MiB", "--json", "--", sys.executable, "train.py")
    whole, bug = (
        run([*start, word], tmp_path, environ=BUILT, timeout_s=300) for word in ("whole", "bug")
    )

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
