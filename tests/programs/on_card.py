"""Pieces of code with the real frameworks on two simulated GPUs: the fixture ``run_on_card``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, CardSpec, simulated_card, support_for_command
from tests.frameworks.installed import folder_of
from tests.programs import warm
from tests.programs.processes import REPORT, reported

SPEC = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, count=2)


class Outcome(NamedTuple):
    """The exit code, what the code reported, and all that it and TensorFlow printed."""

    code: int
    values: dict[str, Any]
    log: str


RunOnCard = Callable[..., Outcome]


@pytest.fixture(scope="module")
def run_on_card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunOnCard]:
    """``run_on_card(code, profile, frameworks=(…), fresh="", **variables)``: run it to its end.

    ``code`` is a file of its own, so that spawned children can import it, and may call
    ``report(name=value)`` with anything JSON knows.  ``frameworks`` names what it may import next
    to TensorFlow: "torch" and "jax" for the versions of the gate, "torch-2.9.1" for another one.
    It shares an import of TensorFlow (see `tests.programs.warm`) unless ``fresh`` says why not.
    The GPUs are SPEC's.
    """
    folder = tmp_path_factory.mktemp("programs")
    with simulated_card(SPEC) as card:

        def run(
            code: str,
            profile: str = "shared-desktop",
            frameworks: Sequence[str] = (),
            fresh: str = "",
            **variables: str,
        ) -> Outcome:
            script = folder / f"program{len(list(folder.iterdir()))}.py"
            script.write_text(REPORT + code, encoding="utf-8")
            environ = {**environment_on(card, frameworks), "TF_CPP_MIN_LOG_LEVEL": "0"}
            environ.pop("CUDA_VISIBLE_DEVICES", None)
            if not fresh and not frameworks:
                environ[warm.VARIABLE] = "1"
            done = subprocess.run(
                [sys.executable, str(script)],
                env={**environ, "GPUCONF_PROFILE": profile, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=300,
                cwd=folder,
            )
            return Outcome(done.returncode, reported(done.stdout), done.stdout)

        yield run


def environment_on(card: Card, frameworks: Sequence[str]) -> dict[str, str]:
    """The environment of a program that may import ``frameworks``."""
    if not frameworks:
        return card.environment(os.environ)
    folders = [str(folder_of(*name.split("-"))) for name in frameworks]
    paths = [*folders, os.environ.get("PYTHONPATH", "")]
    # Without `skip_waits.c`: JAX frees memory while its allocator waits.
    environ = {**os.environ, "PYTHONPATH": ":".join(filter(None, paths)), "LD_PRELOAD": ""}
    wheels = support_for_command([sys.executable], environ=environ)
    return card.environment(environ, wheels=wheels)


@pytest.fixture
def write_profile(tmp_path: Path) -> Callable[[str], str]:
    """Write a profile and return its path."""

    def write(text: str) -> str:
        path = tmp_path / "profile.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
