"""`gpuconf demo`: both halves for real, and what it says where it cannot show them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from commands import gpuconf
from processes import Nvml, run

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_the_story_as_the_readme_tells_it(tmp_path: Path) -> None:
    """Dies without the line and lives with it, with the figures of the README, to the byte."""
    done = run(gpuconf("demo", "--simulated"), tmp_path, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    assert "simulated card" in told.splitlines()[0]
    for line in (
        "TensorFlow takes 7783 MiB of the 9319 MiB that were free.",
        "2. A second hold_memory.py beside it needs 1536 MiB: dies (exit code 1",
        "(10630043904 bytes) from device",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "1. hold_memory.py: runs.",
        "to 7884 MiB at most.",
        "2. A second hold_memory.py beside it: runs.",
        "3. ninety_percent.py beside it: runs.",
        "limit = min(7884 MiB, 8295 MiB) = 7884 MiB",
    ):
        assert line in told
    assert "with the line: ninety_percent.py" in done.stderr


@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
def test_without_a_compiler_it_says_what_it_cannot_show(tmp_path: Path) -> None:
    """No GPU and no compiler: the plan's sum, one error with a hint, exit code 1."""
    environ = {"CC": "", "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = run(gpuconf("demo", "--simulated"), tmp_path, environ=environ)
    assert done.returncode == 1
    assert "nothing can be run" in done.stdout
    assert "limit = min(7884 MiB, 8295 MiB) = 7884 MiB" in done.stdout
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not installed")
@pytest.mark.parametrize(
    ("scenario", "visible", "because"),
    [
        ("desktop", "0", "python3 (4242) holds memory on GPU 0; --real uses it all the same"),
        ("two_cards", "", "CUDA_VISIBLE_DEVICES is empty"),
        ("no_library", "0", "libnvidia-ml"),
    ],
)
def test_a_card_that_is_not_ours_is_left_alone(
    tmp_path: Path, nvml: Nvml, scenario: str, visible: str, because: str
) -> None:
    """A GPU on which others compute, or none: the simulated card, and the reason is said."""
    nothing_to_build = {"CC": "", "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    environ = {**nvml(scenario), **nothing_to_build, "CUDA_VISIBLE_DEVICES": visible}
    done = run(gpuconf("demo"), tmp_path, environ=environ)
    assert "not on a real GPU: " in done.stderr
    assert because in done.stderr
    assert "no simulated card, so nothing can be run" in done.stdout


def test_help_tells_what_it_takes(tmp_path: Path) -> None:
    """Whoever reads --help knows that a real card's free memory is taken, and for how long."""
    done = run(gpuconf("demo", "--help"), tmp_path)
    told = " ".join(done.stdout.split())
    assert "all of the card's free memory for about a minute" in told


def test_without_tensorflow_it_names_the_command(tmp_path: Path) -> None:
    """TensorFlow is an extra: the error is the pip command that installs it."""
    program = (
        "import importlib.util, sys\n"
        "from gpuconf.cli.main import main\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'tensorflow' else real(n, *a)\n"
        "sys.exit(main(['demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install tensorflow" in done.stderr
