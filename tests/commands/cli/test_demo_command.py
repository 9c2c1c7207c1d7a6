"""`gpuconf demo`: both halves for real, and what it says where it cannot show them."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from tests.commands.cli.commands import BUILT, ROOT, gpuconf
from tests.programs.processes import run

pytestmark = pytest.mark.slow  # waits for programs

MISSING = [name for name in ("tensorflow", "sklearn") if importlib.util.find_spec(name) is None]
needs_tensorflow = pytest.mark.skipif("tensorflow" in MISSING, reason="tensorflow not installed")
needs_them = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")


@pytest.mark.nightly
@needs_them
def test_the_story_as_the_readme_tells_it(tmp_path: Path) -> None:
    """Dies without the line and trains with it, with the figures of the README, to the byte."""
    done = run(gpuconf("demo"), tmp_path, environ=BUILT, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "simulated GPU" in done.stdout.splitlines()[0]
    told = " ".join(done.stdout.split())
    for text in (
        "it takes 7783 MiB of the 9319 MiB that were free;",
        "2. A second train_digits.py next to it finds 1536 MiB, and fails (exit code 1",
        "history = model.fit(",
        "ResourceExhaustedError: OOM when allocating tensor with shape[512,128,128,32]",
        "(10630043904 bytes) from device",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "1. train_digits.py learns, with the same losses to the bit. Its limit: 3942 MiB;",
        "2. A second train_digits.py next to it learns, with the same losses to the bit. Its "
        "limit: 3942 MiB. Both trained at the same time",
        "3. ninety_percent.py next to the first runs. Its limit: 3942 MiB.",
        "limit = min(3942 MiB, 8551 MiB) = 3942 MiB",
    ):
        assert text in told
    assert "with gpuconf: ninety_percent.py" in done.stderr
    picture = (ROOT / "docs" / "pictures" / "crowded-card.svg").read_text(encoding="utf-8")
    for figure in re.findall(r"\b\d+ MiB(?! left)", picture):
        assert figure in told


@needs_tensorflow
def test_the_short_story_needs_a_c_compiler_alone(tmp_path: Path) -> None:
    """--quick fails without the line and runs with it, with equal figures and no C++ compiler."""
    environ = {"CXX": "/nowhere/c++", "XDG_CACHE_HOME": str(tmp_path)}
    done = run(gpuconf("demo", "--quick"), tmp_path, environ=environ, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    for text in (
        "Nothing is computed: `gpuconf demo` without --quick trains a network.",
        "1. one_tensor.py needs 1024 MiB. With its CUDA context it takes 7783 MiB of the 9319 MiB "
        "that were free.",
        "2. A second one_tensor.py next to it finds 1536 MiB, and fails (exit code 1",
        "one_tensor.py, line 9: tensor = tf.raw_ops.Empty(",
        "OOM when allocating tensor with shape[256,1024,1024] and type float",
        "1. one_tensor.py runs. Its limit: 3942 MiB.",
        "2. A second one_tensor.py next to it runs. Its limit: 3942 MiB.",
        "Of the 1536 MiB left, the second process got 861 MiB",
        "limit = min(3942 MiB, 8551 MiB) = 3942 MiB",
    ):
        assert text in told


@needs_them
def test_without_a_compiler_it_says_what_it_cannot_show(tmp_path: Path) -> None:
    """No GPU and no compiler: the plan's sum, one error with a hint, exit code 4."""
    environ = {"CC": "", "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = run(gpuconf("demo"), tmp_path, environ=environ)
    assert done.returncode == 4
    assert "Nothing can be run: " in done.stdout
    assert "limit = min(3942 MiB, 8551 MiB) = 3942 MiB" in done.stdout
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "module", "hint"),
    [
        (["demo"], "tensorflow", "pip install tensorflow"),
        (["demo", "--quick"], "tensorflow", "pip install tensorflow"),
        (["demo"], "sklearn", "pip install scikit-learn; or, without it: gpuconf demo --quick"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command(
    tmp_path: Path, words: list[str], module: str, hint: str
) -> None:
    """TensorFlow and scikit-learn are extras: what cannot be shown, what would be set, and pip."""
    program = (
        "import importlib.util, sys\n"
        "from gpuconf.commands.cli.main import main\n"
        "real = importlib.util.find_spec\n"
        "installed = lambda name: object() if name == 'tensorflow' else real(name)\n"
        f"importlib.util.find_spec = lambda n, *a: None if n == {module!r} else installed(n)\n"
        f"sys.exit(main({words!r}))"
    )
    done = run([sys.executable, "-c", program], tmp_path)
    assert done.returncode == 4
    assert f"hint: {hint}" in done.stderr
    assert len(done.stderr.splitlines()) == 2
    told = " ".join(done.stdout.split())
    assert "which is not installed. So this demo cannot show a program that takes" in told
    assert "limit = min(3942 MiB, 8551 MiB) = 3942 MiB" in told


def test_json_is_refused_with_one_document(tmp_path: Path) -> None:
    """The demo is for people: a program that requests JSON is told so in JSON."""
    done = run(gpuconf("demo", "--json"), tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["type"] == "UsageError"
