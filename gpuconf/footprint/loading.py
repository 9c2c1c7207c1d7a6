"""What a command line names, a file or a function, as a Keras model; weights are not read."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from gpuconf.errors import BackendError, MissingDependencyError, UsageError
from gpuconf.footprint.targets.restoring import RestoredModel, restore
from gpuconf.footprint.targets.saved_models import FROM_CODE, read_saved_model
from gpuconf.footprint.targets.user_code import model_from_code
from gpuconf.footprint.targets.user_modules import function_wanted

_SAVED = (".keras", ".h5", ".hdf5")
_ALONE = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "GPUCONF_DISABLE": "1",  # `import gpuconf.auto` in the user's module has no card to plan for
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def stay_off_the_gpu(environ: MutableMapping[str, str] = os.environ) -> None:
    """Let this process see no GPU, unless TensorFlow is there already and knows what it saw."""
    if "tensorflow" not in sys.modules:
        environ.update(_ALONE)


def load_model(
    target: str, *, folder: Path | None = None, environ: Mapping[str, str] = os.environ
) -> RestoredModel:
    """The model that ``target`` names: a saved one's path, ``module:function`` or ``file.py:name``.

    ``folder`` is where modules are looked for first, by default the current one.  Raises
    UsageError for what names no model, MissingDependencyError without TensorFlow, BackendError
    under another backend of Keras, GpuconfError for what the user's own code raises.
    """
    path = Path(target)
    is_file = path.exists() or ":" not in target
    if is_file:
        _refuse_programs(path)
    if "://" in target:
        raise UsageError(
            f"{target} is not on this machine", hint="fetch it first, and give the file's path"
        )
    saved = read_saved_model(path) if is_file else None
    _check_backend(target, environ)
    _import_tensorflow()
    if saved is not None:
        return restore(saved, path)
    return model_from_code(target, folder=(folder or Path.cwd()).resolve())


def _refuse_programs(path: Path) -> None:
    """Raise where the name of a module, or of nothing, stands for a file."""
    if path.is_file() and path.suffix == ".py":
        raise function_wanted(path)
    if path.exists() or path.suffix.lower() in _SAVED:
        return
    program = path.with_name(f"{path.name}.py")
    if program.is_file():
        raise function_wanted(program)
    raise UsageError(
        f"{str(path)!r} is neither a file that is there nor module:function",
        hint=f"give model.keras, or the function that makes the model: {FROM_CODE}",
    )


def _check_backend(target: str, environ: Mapping[str, str]) -> None:
    backend = environ.get("KERAS_BACKEND", "")
    if backend not in ("", "tensorflow"):
        raise BackendError(
            f"KERAS_BACKEND={backend}: only TensorFlow's memory can be estimated",
            hint=f"KERAS_BACKEND=tensorflow gpuconf estimate {shlex.quote(target)}",
        )


def _import_tensorflow() -> None:
    """Import it and hear nothing of it, but what it says when it fails."""
    try:
        with _silent():
            import tensorflow as tf
            from absl import logging
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
    """Hold back what is written to stderr, also by C++: TensorFlow logs before it reads its level.

    It is written after all where something is raised.
    """
    if sys.stderr is None:  # the process was started without it
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
