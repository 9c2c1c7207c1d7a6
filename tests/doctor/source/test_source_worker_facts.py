"""What `source.workers` stands on: which pools gpuconf reaches, by real runs of joblib."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import gpuconf.auto
import gpuconf, joblib
from concurrent.futures import ProcessPoolExecutor
from joblib.externals.loky import get_reusable_executor
from multiprocessing import get_context

def is_reached(_):
    import gpuconf
    return gpuconf.activation() is not None

def starts_it(_):
    import gpuconf
    gpuconf.configure()
    return is_reached(_)

def run(function, **options):
    try:
        return all(joblib.Parallel(2, **options)(joblib.delayed(function)(i) for i in (1, 2)))
    finally:
        get_reusable_executor().shutdown(wait=True)

if __name__ == "__main__":
    found = {"bare": run(is_reached), "first line": run(starts_it)}
    with joblib.parallel_config(backend="loky", initializer=gpuconf.configure):
        found["initializer"] = run(is_reached)
    found["multiprocessing"] = run(is_reached, backend="multiprocessing")
    with get_reusable_executor(2) as pool:
        found["bare loky"] = all(pool.map(is_reached, (1, 2)))
    with get_reusable_executor(2, initializer=gpuconf.configure) as pool:
        found["loky"] = all(pool.map(is_reached, (1, 2)))
    for method in ("fork", "spawn"):
        with ProcessPoolExecutor(2, mp_context=get_context(method)) as pool:
            found[method] = all(pool.map(is_reached, (1, 2)))
    print(found)
"""


@pytest.mark.slow
def test_which_workers_gpuconf_reaches(tmp_path: Path) -> None:
    """Not those of loky, unless their initializer or function starts it; all others."""
    script = tmp_path / "script.py"
    script.write_text(_PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script)],  # a file, which spawned workers import
        env={**os.environ, "GPUCONF_PROFILE": "cpu-only"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = ast.literal_eval(done.stdout.strip())
    bare = {name for name, is_reached in found.items() if not is_reached}
    assert bare == {"bare", "bare loky"}
    assert len(found) == 8
