"""What a `gpuconf run` gives the programs that it starts: the variable and the folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import gpuconf
from gpuconf.basics.units import GIB
from gpuconf.machine.cards.inventory import Gpu, Inventory
from gpuconf.planner import GpuPlan, Plan
from gpuconf.planner.plan import FrameworkLimit
from gpuconf.profile import load_profile
from gpuconf.profile.model import TensorFlowRules
from gpuconf.session import run_variable
from tests.programs.processes import run_with

PACKAGE = Path(gpuconf.__file__).parent
SITE = PACKAGE / "injected" / "site"
UUID = "GPU-5f5e1a2b-0000-4000-8000-00000000000{}"
TOTAL_BYTES, LIMIT_BYTES = 8 * GIB, 2 * GIB
OTHER_VERSION = "0.0.of-another-gpuconf"  # which makes our own code apply
_ASK = "import sys; print('%d.%d %s' % (sys.version_info[:2] + (sys.executable,)))"


def card(index: int = 0, limit_bytes: int | None = LIMIT_BYTES, **more: Any) -> GpuPlan:
    """The plan of one 8 GiB GPU."""
    share = None if limit_bytes is None else limit_bytes / TOTAL_BYTES
    limits = tuple(
        FrameworkLimit(name, limit_bytes, share) for name in ("tensorflow", "jax", "torch")
    )
    gpu = Gpu(index=index, uuid=UUID.format(index), total_bytes=TOTAL_BYTES)
    given = {"limit_bytes": limit_bytes, "limits": limits, "allow_growth": True, **more}
    return GpuPlan(gpu, **given)


def variable(
    *cards: GpuPlan,
    session: str = "auto",
    leases: Mapping[str, str] | None = None,
    processes: int = 1,
    version: str = OTHER_VERSION,
    **plan: Any,
) -> str:
    """The text of GPUCONF_RUN; one GPU by default."""
    rules = TensorFlowRules(session=session)
    profile = load_profile("shared-desktop")._replace(
        name="half-card", tensorflow=rules, processes=processes
    )
    made = Plan(profile, gpus=cards or (card(),), **plan)
    inventory = Inventory(gpus=tuple(each.gpu for each in made.gpus))
    document = json.loads(run_variable.encode(made, inventory, leases or {}, str(PACKAGE)))
    return json.dumps({**document, "version": version})


def run_environment(
    text: str | None, *folders: Path | str, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a program in a run, with ``folders`` behind ours on PYTHONPATH."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GPUCONF_", "CUDA_", "PYTHON", "TF_", "XLA_"))
    }
    path = os.pathsep.join(map(str, (SITE, *folders)))
    found = {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
    return found if text is None else {**found, "GPUCONF_RUN": text}


def run_in(
    python: str, program: str, environ: Mapping[str, str], folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run ``program`` with ``python`` in ``folder``."""
    command = [python, *options, "-c", dedent(program)]
    return run_with(command, environ, folder, timeout_s=120)


@cache
def pythons() -> dict[str, str]:
    """Every Python on this machine that the carried code is for, one of each version."""
    found: dict[str, str] = {}
    for path in _candidates():
        if os.path.basename(path).removeprefix("python") in found:
            continue  # a shim of what was found already, which is slow to ask
        asked = subprocess.run(
            [path, "-S", "-c", _ASK], capture_output=True, text=True, check=False, timeout=60
        )
        version, _, executable = asked.stdout.strip().partition(" ")
        if asked.returncode == 0 and _is_supported(version):
            found.setdefault(version, executable or path)
    return dict(sorted(found.items(), key=lambda item: _number(item[0])))


def _candidates() -> Iterable[str]:
    import sys

    yield sys.executable
    roots = [os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")]
    for root in filter(None, roots):
        yield from map(str, sorted(Path(root).glob("versions/*/bin/python")))
    for name in ("python2.7", "python2", *(f"python3.{minor}" for minor in range(5, 20))):
        path = shutil.which(name)
        if path is not None:
            yield path


def _is_supported(version: str) -> bool:
    return _number(version) == (2, 7) or _number(version) >= (3, 5)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
