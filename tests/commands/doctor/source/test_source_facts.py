"""What the source lint says of TensorFlow, Keras, JAX and joblib, asked of them in processes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.programs.processes import run

pytestmark = pytest.mark.slow


def run_script(script: str, folder: Path, **variables: str) -> CompletedProcess[str]:
    """The script's outcome, with no variables of ours but these."""
    environ = {"JAX_PLATFORMS": "cpu", **variables}
    done = run([sys.executable, "-c", script], folder, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stderr
    return done


def last_line(script: str, folder: Path, **variables: str) -> str:
    """The last line that the script prints."""
    return run_script(script, folder, **variables).stdout.splitlines()[-1]


TENSORFLOW = """
import tensorflow as tf, os
os.environ.update(TF_ENABLE_ONEDNN_OPTS="0", TF_CPP_MIN_LOG_LEVEL="3")
from tensorflow.python.framework import test_util
tf.constant(1.0)
print(test_util.IsMklEnabled(), hasattr(tf, "Session"), hasattr(tf, "ConfigProto"),
      hasattr(tf.keras.backend, "set_session"), hasattr(tf.compat.v1, "Session"))
"""


@pytest.mark.nightly  # a fact about a version of TensorFlow
def test_tensorflow_reads_at_import(tmp_path: Path) -> None:
    """TF_ENABLE_ONEDNN_OPTS and TF_CPP_MIN_LOG_LEVEL set a line later do nothing.

    (Set to 1 before, as what holds without it depends on the processor.)  And version-1 sessions
    are only in tf.compat.v1, and with Keras nowhere.
    """
    late = run_script(TENSORFLOW, tmp_path, TF_ENABLE_ONEDNN_OPTS="1")
    assert late.stdout.split() == ["True", "False", "False", "False", "True"]
    assert "cpu_feature_guard" in late.stderr
    variables = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    early = run_script(TENSORFLOW, tmp_path, **variables)
    assert early.stdout.split()[0] == "False"
    assert "cpu_feature_guard" not in early.stderr


KERAS = """
import tensorflow as tf, os
from tensorflow.keras import layers
os.environ.update(KERAS_BACKEND="jax", TF_USE_LEGACY_KERAS="1")
import keras
print(keras.backend.backend(), tf.keras.layers.Dense.__module__.partition(".")[0])
"""


@pytest.mark.nightly
def test_keras_reads_at_import(tmp_path: Path) -> None:
    """KERAS_BACKEND and TF_USE_LEGACY_KERAS are read when Keras is imported."""
    assert last_line(KERAS, tmp_path) == "tensorflow keras"
    assert last_line(KERAS, tmp_path, KERAS_BACKEND="jax").startswith("jax")


def test_jax_reads_its_platforms_at_import(tmp_path: Path) -> None:
    """JAX_PLATFORMS set after the import does nothing."""
    script = (
        "import jax, os\nos.environ['JAX_PLATFORMS'] = 'no such'\nprint(jax.devices()[0].platform)"
    )
    assert last_line(script, tmp_path) == "cpu"


WORKERS = """
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


def test_which_workers_gpuconf_reaches(tmp_path: Path) -> None:
    """Not those of loky, unless their initializer or function starts it; all others."""
    (tmp_path / "script.py").write_text(WORKERS)  # a file, which spawned workers import
    environ = {"GPUCONF_PROFILE": "cpu-only"}
    done = run([sys.executable, "script.py"], tmp_path, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout.strip())
    bare = {name for name, is_reached in found.items() if not is_reached}
    assert bare == {"bare", "bare loky"}
    assert len(found) == 8
