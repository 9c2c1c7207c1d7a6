"""Whole Keras trainings that share one simulated card, as the README tells it.

Mirrors no module; see test_computed_alike.py beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from gpuconf.simcard import Card, bridge_for_command
from gpuconf.units import GIB, MIB
from tests.programs import warm
from tests.programs.card_clients import STORY, StartClient
from tests.programs.processes import Program, Start

_HERE = Path(__file__).parent
_STEERING = ("TF_", "XLA_", "KERAS_", "CUDA_", "GPUCONF_")
_BESIDE = {warm.VARIABLE: "1", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "1"}
_GPUCONF = {"WITH_GPUCONF": "1", "GPUCONF_PROFILE": "half-card"}
# The units of fit_on_card.py: the usual ones need more than a first program leaves of the card; by
# default it has more still, and dies of that with its first weights, after one wait of TensorFlow.
_UNITS = {"small": 10000, "usual": 40000}

Begin = Callable[..., Program]


@pytest.fixture(scope="session")
def bridge() -> Path:
    """The bridge for this Python's TensorFlow."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler named c++")
    return bridge_for_command([sys.executable])


@pytest.fixture
def begin(start: Start, bridge: Path) -> Begin:
    """Start a program of this folder on a card."""

    def begin_one(card: Card, program: str, **environ: str) -> Program:
        variables = {**card.environment(_clean(), bridge=bridge), **_BESIDE, **environ}
        return start([sys.executable, str(_HERE / program)], variables)

    return begin_one


def _clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(_STEERING)}


def _until(child: Program, word: str) -> str:
    """Read to the line that begins with ``word``; '' if the program ends before."""
    output: IO[str] | None = child.stdout
    assert output is not None
    return next((line for line in output if line.startswith(word)), "")


def _finish(child: Program) -> str:
    """Let it go on, and wait for its end."""
    output, _ = child.communicate("go on\n", timeout=300)
    return output


@pytest.mark.slow
def test_two_fits_without_gpuconf(card: Card, begin: Begin) -> None:
    """The first takes nearly all, and needs little of it; the second dies as the README says; the
    first lives on."""
    first = begin(card, "fit_on_card.py", UNITS=str(_UNITS["small"]))
    assert _until(first, "TRAINING")
    (holder,) = card.processes()
    assert holder.used_bytes >= 7783 * MIB
    second = begin(card, "fit_on_card.py")
    assert _until(second, "TRAINING") == ""
    assert second.wait(timeout=300) != 0
    log = second.log
    assert "Dst tensor is not initialized" in log or "OOM when allocating" in log, log[-3000:]
    assert "DONE" in _finish(first)
    assert first.returncode == 0


@pytest.mark.slow
def test_two_fits_with_half_card(card: Card, begin: Begin) -> None:
    """With the line on top both train at once and end well, each below its part of the card."""
    fits = {}
    for count, (size, units) in enumerate(_UNITS.items(), start=1):
        fits[size] = begin(card, "fit_on_card.py", UNITS=str(units), **_GPUCONF)
        assert _until(fits[size], "TRAINING")
        assert len(card.processes()) == count
    for size, child in fits.items():
        done = _finish(child)
        assert child.returncode == 0, done
        peak_bytes = int(done.split()[-1])
        # Weights, their gradients and Adam's two slots.
        assert _UNITS[size] * 2000 * 4 * 4 < peak_bytes < 3942 * MIB
    assert card.processes() == ()


@pytest.mark.slow
def test_a_killed_fit_gives_its_memory_back(card: Card, begin: Begin) -> None:
    """SIGKILL in the middle of training: the card is the desktop's again."""
    child = begin(card, "fit_on_card.py", UNITS="1000")
    assert _until(child, "TRAINING")
    assert card.used_bytes() > STORY.used_bytes + 5 * GIB
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert card.used_bytes() == STORY.used_bytes
    assert card.processes() == ()


@pytest.mark.slow
def test_twenty_starts_leave_nothing_behind(
    card: Card, begin: Begin, start_client: StartClient
) -> None:
    """Trainings that end or are killed, and bare CUDA programs that exit without a clean-up."""
    for number in range(18):
        client = start_client(
            card, "cuda.enter(); cuda.allocate(64 * MIB); print('up', flush=True); input()"
        )
        assert _until(client, "up")
        assert card.used_bytes() == STORY.used_bytes + 64 * MIB
        if number % 2:
            client.kill()
        client.communicate("\n")
        assert card.processes() == ()
    for kill in (False, True):
        child = begin(card, "fit_on_card.py", UNITS="10")
        assert _until(child, "TRAINING")
        assert len(card.processes()) == 1
        if kill:
            child.kill()
            child.wait()
        else:
            _finish(child)
            assert child.returncode == 0
    assert card.processes() == ()
    assert card.used_bytes() == STORY.used_bytes


@pytest.mark.slow
def test_mirrored_over_the_virtual_pair(card: Card, begin: Begin) -> None:
    """Two logical devices of one card, each with its copy of the weights; losses as on two CPUs."""
    pair = {"WITH_GPUCONF": "1", "GPUCONF_PROFILE": "virtual-pair"}
    on_card = _mirrored(begin(card, "mirrored_fit.py", **pair))
    on_cpus = _mirrored(begin(card, "mirrored_fit.py", CUDA_VISIBLE_DEVICES="-1"))
    assert [device.rpartition("/device:")[2] for device in on_card["devices"]] == ["GPU:0", "GPU:1"]
    assert [device.rpartition("/device:")[2] for device in on_cpus["devices"]] == ["CPU:0", "CPU:1"]
    assert np.allclose(on_card["losses"], on_cpus["losses"], rtol=1e-6, atol=0)
    assert on_card["losses"][-1] < on_card["losses"][0]


def _mirrored(child: Program) -> Mapping[str, Any]:
    output, _ = child.communicate(timeout=300)
    assert child.returncode == 0
    return dict(json.loads(output.splitlines()[-1]))
