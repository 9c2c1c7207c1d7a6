"""The cost of a lease in the binding: fresh processes with ``memory.lease`` on and off, in pairs.

Each imports gpuconf.auto and a framework (an empty module), and then creates its devices.  A real
framework's import takes seconds, after which the card is queried again, with or without a lease, so
that is done here too.  The measured time is from before that import to after the binding, including
the modules loaded meanwhile.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_PROFILE = "extends: half-card\nmemory: {{lease: {lease}}}\n"
_PROGRAM = """
import json, sys, time
import gpuconf.auto
from gpuconf import bootstrap
loaded = [name for name in sys.modules if name.startswith(("gpuconf.leases", "gpuconf.own_lease"))]
wall_s, cpu_s = time.perf_counter(), time.process_time()
import cupy
binding = bootstrap._binding
binding._state = binding._state._replace(planned_at=float("-inf"))
middle_s, middle_cpu_s = time.perf_counter(), time.process_time()
plans = []
binding.bind(plans.append)
now_s, now_cpu_s = time.perf_counter(), time.process_time()
print(json.dumps([now_s - wall_s, now_cpu_s - cpu_s, now_s - middle_s, now_cpu_s - middle_cpu_s,
                  plans[0].gpus[0].lease_bytes, loaded]))
"""


class Binding(NamedTuple):
    """One process's time for import and binding, and for the binding alone; in seconds."""

    wall_s: float
    cpu_s: float
    bind_wall_s: float
    bind_cpu_s: float


def bind_once(profile: Path, environ: Mapping[str, str], *, leases: bool) -> Binding:
    """Bind in a fresh process; raises SystemExit if the result is not as requested."""
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(
        command,
        env={**environ, "GPUCONF_PROFILE": str(profile)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    *figures, lease_bytes, loaded = json.loads(done.stdout)
    if (lease_bytes is not None) != leases or loaded:
        raise SystemExit(f"lease {lease_bytes}, loaded by import gpuconf.auto: {loaded}")
    return Binding(*figures)


def bind_in_pairs(
    rounds: int, environ: Mapping[str, str], folder: Path
) -> list[tuple[Binding, Binding]]:
    """Measure ``rounds`` pairs, with a lease and without; the order alternates."""
    (folder / "cupy.py").write_text("", encoding="utf-8")
    files = {}
    for leases in (True, False):
        files[leases] = folder / f"{'with' if leases else 'without'}.yaml"
        files[leases].write_text(_PROFILE.format(lease=str(leases).lower()), encoding="utf-8")
    paths = [str(folder), *filter(None, [environ.get("PYTHONPATH")])]
    environ = {**environ, "PYTHONPATH": os.pathsep.join(paths)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    pairs = []
    for number in range(-1, rounds):  # the first writes .pyc files
        order = (True, False) if number % 2 else (False, True)
        found = {leases: bind_once(files[leases], environ, leases=leases) for leases in order}
        if number >= 0:
            pairs.append((found[True], found[False]))
    return pairs


def lines(pairs: list[tuple[Binding, Binding]]) -> list[str]:
    """The medians of both, and of the pairs' differences with their middle half; milliseconds."""
    found = []
    names = ("import and binding, wall", "import and binding, CPU", "binding, wall", "binding, CPU")
    for name, field in zip(names, Binding._fields, strict=True):
        ours = [getattr(one, field) * 1e3 for one, _ in pairs]
        others = [getattr(other, field) * 1e3 for _, other in pairs]
        added = [a - b for a, b in zip(ours, others, strict=True)]
        low, _, high = statistics.quantiles(added, n=4)
        middle = [statistics.median(each) for each in (ours, others, added)]
        figures = "".join(f"{each:10.2f}" for each in middle)
        found.append(f"{name:28}{figures}   {low:.2f} to {high:.2f}")
    return found
