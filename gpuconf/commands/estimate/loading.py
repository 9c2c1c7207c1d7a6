"""Loads the file or function named on the command line as a Keras model; weights are not read."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from gpuconf.commands.estimate.estimate_request import check_backend
from gpuconf.commands.estimate.gc_pause import gc_frozen
from gpuconf.commands.estimate.jax.compiling import check_compiler
from gpuconf.commands.estimate.runner.environment import hide_gpus
from gpuconf.commands.estimate.targets.restoring import RestoredModel, restore
from gpuconf.commands.estimate.targets.saved_models import FROM_CODE, read_saved_model
from gpuconf.commands.estimate.targets.user_code import model_from_code
from gpuconf.commands.estimate.targets.user_modules import function_wanted
from gpuconf.errors import MissingDependencyError, UsageError
from gpuconf.support.keras_api.jit import watch_jit_compile

_ALONE = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "GPUCONF_DISABLE": "1",  # `import gpuconf.auto` in the user's module has no GPU to plan for
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "JAX_PLATFORMS": "cpu",  # for variables; compiling for CUDA needs no GPU
}


def stay_off_the_gpu(environ: MutableMapping[str, str] = os.environ) -> None:
    """Hide all GPUs from this process, unless a framework is already imported."""
    if not {"tensorflow", "jax"} & set(sys.modules):
        hide_gpus(environ, _ALONE)


def backend_wanted(environ: Mapping[str, str] = os.environ) -> str:
    """Return the backend that Keras is set to use."""
    return environ.get("KERAS_BACKEND") or "tensorflow"


def load_model(
    target: str, *, folder: Path | None = None, environ: Mapping[str, str] = os.environ
) -> RestoredModel:
    """Return the model for ``target``: a saved file, ``module:function`` or ``file.py:name``.

    ``folder``, by default the current one, is searched for modules first.  Raises UsageError if the
    target is not a model, MissingDependencyError without TensorFlow (or JAX, if KERAS_BACKEND
    selects it), BackendError for another Keras backend, and GpuconfError for errors in the user's
    code.
    """
    path = Path(target)
    is_file = path.exists() or ":" not in target
    if is_file:
        _refuse_programs(path)
    if "://" in target:
        raise UsageError(
            f"{target} is not on this machine", hint="download it first, then name the file's path"
        )
    saved = read_saved_model(path) if is_file else None
    backend = backend_wanted(environ)
    check_backend(backend, f"gpuconf estimate {shlex.quote(target)}")
    if backend == "tensorflow":
        watch_jit_compile()
        import_tensorflow()
    else:
        _import_keras_on(backend)
    if saved is not None:
        return restore(saved, path)
    return model_from_code(target, folder=(folder or Path.cwd()).resolve())


def _refuse_programs(path: Path) -> None:
    """Raise UsageError if the target is a module name or a missing file."""
    is_program = path.suffix == ".py"
    if path.exists() and not is_program:
        return
    program = path if is_program else path.with_name(f"{path.name}.py")
    if program.is_file():
        raise function_wanted(program)
    if path.suffix:
        raise UsageError(f"there is no file {path}", hint=f"ls {shlex.quote(str(path.parent))}")
    raise UsageError(
        f"{str(path)!r} is neither an existing file nor module:function",
        hint=f"name model.keras, or the function that builds the model: {FROM_CODE}",
    )


def _import_keras_on(backend: str) -> None:
    """Import Keras and its backend, so that models created from now on take up no memory."""
    try:
        with _silent():
            importlib.import_module(backend)
            importlib.import_module("keras")
            check_compiler()
    except ModuleNotFoundError as error:
        if error.name not in (backend, "keras"):
            raise
        raise MissingDependencyError(
            f"KERAS_BACKEND={backend}, but {error.name} is not installed",
            hint='pip install keras "jax[cuda12]"',
        ) from None


def import_tensorflow(*, is_without_gpus: bool = False) -> None:
    """Import TensorFlow silently, unless the import fails.

    With ``is_without_gpus``, TensorFlow looks for GPUs now, while the environment hides them: a
    script may set CUDA_VISIBLE_DEVICES itself, and CUDA reads it only once.
    """
    try:
        with _silent(), gc_frozen():
            import tensorflow as tf
            from absl import logging

            if is_without_gpus:
                tf.config.list_physical_devices("GPU")
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise MissingDependencyError(
            "an estimate needs TensorFlow, which is not installed", hint="pip install tensorflow"
        ) from None
    tf.get_logger().setLevel("ERROR")
    logging.set_verbosity(logging.ERROR)


@contextmanager
def _silent() -> Iterator[None]:
    """Hold back output to stderr, including from C++: TensorFlow logs before reading its log level.

    The output is written if an exception is raised.
    """
    if sys.stderr is None:  # the process was started without stderr
        yield
        return
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(before, held.read())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)
