"""Fixtures for every test: how programs start, what they see, and the one that starts them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.machine.cards import standin
from tests.programs import lean_tensorflow
from tests.programs.processes import Nvml, Program, Start
from tests.programs.warm import VARIABLE, Popen

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def _lean_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every Python that a test starts begins with that module, and finds the package ``tests``."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copyfile(lean_tensorflow.__file__, folder / "sitecustomize.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}", prepend=os.pathsep)
        # Kernels that split their work among threads only wait here, where tests run side by side:
        # a fifth less of processor time.  Which operation runs when does not change by this.
        patch.setenv("TF_NUM_INTRAOP_THREADS", "1")
        yield


def build_skip_waits(folder: Path) -> str:
    """Compile the library with which TensorFlow's allocators do not wait; return its path."""
    library = folder / "skip_waits.so"
    source = str(ROOT / "tests" / "programs" / "skip_waits.c")
    command = [standin.compiler() or "cc", "-O2", "-shared", "-fPIC", "-o", str(library), source]
    subprocess.run([*command, "-ldl"], check=True)
    return str(library)


@pytest.fixture(scope="session", autouse=True)
def _quick_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """TensorFlow is imported once for many programs, and its allocators do not wait 10 s.

    Not with ``FRESH=1``, as in `make nightly`.
    """
    if standin.compiler() is None or "FRESH" in os.environ:
        yield
        return
    library = build_skip_waits(tmp_path_factory.mktemp("preload"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", library, prepend=":")
        patch.setattr(subprocess, "Popen", Popen)
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_leases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or takes this machine's own leases."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUCONF_LEASES", str(tmp_path_factory.mktemp("ledger") / "leases"))
        yield


@pytest.fixture
def whole_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow with all that it imports where all of it is installed."""
    monkeypatch.setenv("WHOLE_TENSORFLOW", "1")


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Nvml:
    """The variables with which a new process sees the machine of a scenario."""
    if standin.compiler() is None:
        pytest.skip("no C compiler for the stand-in of NVIDIA's library")
    return partial(standin.environment, directory=tmp_path_factory.mktemp("standin"))


@pytest.fixture
def warm_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gpuconf's own functions start shares an import of TensorFlow: `tests.programs.warm`."""
    monkeypatch.setenv(VARIABLE, "1")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start(command, environ, **options)``: a `Program` in ``tmp_path``, killed at the end."""
    started: list[Program] = []

    def begin(command: Sequence[str], environ: Mapping[str, str], **options: Any) -> Program:
        started.append(Program(command, tmp_path, environ, **options))
        return started[-1]

    yield begin
    for program in started:
        program.kill()
        program.communicate()
