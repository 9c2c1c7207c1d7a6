"""Run a piece of code with the real frameworks on a simulated card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuconf.simcard import Card, simulated_card, support_for_command
from tests.frameworks.installed import folder_of
from tests.programs.on_card import SPEC, Outcome, RunOnCard

_TELL = "def tell(**facts):\n    import json\n    print('TOLD', json.dumps(facts), flush=True)\n\n"


@pytest.fixture(scope="module")
def run_on_card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunOnCard]:
    """``run_on_card(code, profile, frameworks=(…), **environment)`` in a fresh process; two cards.

    ``code`` is a file of its own, so that spawned children can import it, and may call
    ``tell(name=value)`` with anything JSON knows.  ``frameworks`` names what it may import beside
    TensorFlow: "torch" and "jax" for the versions of the gate, "torch-2.9.1" for another one.
    The cards are SPEC's.
    """
    folder = tmp_path_factory.mktemp("programs")
    with simulated_card(SPEC) as card:

        def run(
            code: str,
            profile: str = "shared-desktop",
            frameworks: Sequence[str] = (),
            **variables: str,
        ) -> Outcome:
            script = folder / f"program{len(list(folder.iterdir()))}.py"
            script.write_text(_TELL + code, encoding="utf-8")
            environ = {**environment_on(card, frameworks), "TF_CPP_MIN_LOG_LEVEL": "0"}
            environ.pop("CUDA_VISIBLE_DEVICES", None)
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
            told: dict[str, Any] = {}
            for line in done.stdout.splitlines():
                if line.startswith("TOLD "):
                    told.update(json.loads(line.removeprefix("TOLD ")))
            return Outcome(done.returncode, told, done.stdout)

        yield run


def environment_on(card: Card, frameworks: Sequence[str]) -> dict[str, str]:
    """The environment of a program that may import ``frameworks``."""
    if not frameworks:
        return card.environment(os.environ)
    folders = [str(folder_of(*name.split("-"))) for name in frameworks]
    paths = [*folders, os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "PYTHONPATH": ":".join(filter(None, paths))}
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
