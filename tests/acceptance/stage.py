"""Where the acceptance runs: a simulated GPU or a real one, under one Python.

Programs are files of ``programs/`` and of the demo; see :mod:`gpuconf.commands.demo.runner`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuconf.basics.units import MIB
from gpuconf.commands import demo
from gpuconf.commands.demo.runner import Runner
from gpuconf.machine.cards import Gpu, read_inventory
from gpuconf.simcard import CardSpec, simulated_card, support_for_command
from gpuconf.simcard.wheels import WheelSupport
from tests.frameworks.installed import folder_of
from tests.programs import warm

PROGRAMS = (Path(__file__).with_name("programs"), Path(demo.__file__).with_name("programs"))
_CLEARED = (
    "CUDA_VISIBLE_DEVICES",
    "KERAS_BACKEND",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_CPP_MIN_LOG_LEVEL",
)
TOTAL_BYTES, USED_BYTES = 11264 * MIB, 1945 * MIB


class Stage(Runner):
    """Runs programs with one Python on one GPU."""

    def __init__(self, python: str, environ: dict[str, str], *, is_real: bool) -> None:
        super().__init__(python, environ, programs=PROGRAMS)
        self.is_real = is_real

    def gpu(self) -> Gpu:
        """The first GPU as NVML tells it now, asked through the stage's own environment."""
        code = (
            "import json, os; from gpuconf.machine.cards import read_inventory; "
            "from gpuconf.machine.cards.visible_devices import resolve; "
            "seen = resolve(os.environ.get('CUDA_VISIBLE_DEVICES'), read_inventory().gpus); "
            "print(json.dumps(list(seen.devices[0])[:6]))"
        )
        out = subprocess.run(
            [self.python, "-c", code], env=self.environ, check=True, capture_output=True, text=True
        )
        return Gpu(*json.loads(out.stdout))

    def plan(self, profile: str) -> dict[str, Any]:
        """``gpuconf plan PROFILE --json`` on the GPU now."""
        command = [self.python, "-m", "gpuconf", "plan", profile, "--json"]
        out = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            raise RuntimeError(f"gpuconf plan {profile}: {out.stderr}")
        return dict(json.loads(out.stdout))

    @contextmanager
    def crowded(self, *, free_share: float) -> Iterator[Stage]:
        """The same GPU with only ``free_share`` of its memory left."""
        if not self.is_real:
            used = int(TOTAL_BYTES * (1 - free_share))
            with simulated_stage(self.python, used_bytes=used) as stage:
                yield stage
            return
        gpu = self.gpu()
        assert gpu.total_bytes is not None
        assert gpu.free_bytes is not None
        context_mib = 700  # the hog's own CUDA context, roughly
        needed = (gpu.free_bytes - int(gpu.total_bytes * free_share)) // MIB - context_mib
        growth = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "MIB_NEEDED": str(needed)}
        with self.holding("hold_memory.py", EMPTY="1", **growth):
            yield self


@contextmanager
def simulated_stage(
    python: str = sys.executable,
    *,
    used_bytes: int = USED_BYTES,
    count: int = 1,
    framework: str | None = None,
    version: str | None = None,
    processes: str = "exact",
) -> Iterator[Stage]:
    """Simulated GPUs of 11264 MiB on each of which the desktop holds ``used_bytes``.

    ``framework`` is torch or jax, of the gate's version where none is given; ``processes`` is what
    NVML says of them.
    """
    environ, wheels = dict(os.environ), WheelSupport()
    if framework is not None:
        paths = [str(folder_of(framework, version, python)), environ.get("PYTHONPATH", "")]
        environ["PYTHONPATH"] = ":".join(filter(None, paths))
        wheels = support_for_command([python], environ=environ)
    spec = CardSpec(
        total_bytes=TOTAL_BYTES, used_bytes=used_bytes, count=count, processes=processes
    )
    with simulated_card(spec) as card:
        environ = card.environment(environ, wheels=wheels)
        environ[warm.VARIABLE] = "" if framework else "1"
        stage = Stage(python, _cleared(environ), is_real=False)
        try:
            yield stage
        finally:
            stage.close()


@contextmanager
def real_stage(python: str = sys.executable) -> Iterator[Stage]:
    """This machine's own first GPU."""
    inventory = read_inventory()
    if not inventory.gpus:
        raise SystemExit(f"no real GPU here: {inventory.problem or 'the driver knows none'}")
    kept = {k: v for k, v in os.environ.items() if k == "CUDA_VISIBLE_DEVICES"}  # a scheduler's
    stage = Stage(python, {**_cleared(dict(os.environ)), **kept}, is_real=True)
    try:
        yield stage
    finally:
        stage.close()


def _cleared(environ: dict[str, str]) -> dict[str, str]:
    """Without what would change the outcome."""
    kept = {k: v for k, v in environ.items() if k not in _CLEARED and not k.startswith("GPUCONF_P")}
    return {**kept, "TF_ENABLE_ONEDNN_OPTS": "0"}
