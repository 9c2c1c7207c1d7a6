"""Graph-mode Keras: a version-1 session built from the plan and installed with set_session.

Keras 2 and tf_keras accept a session; Keras 3 has no ``set_session`` at all.  Eager mode ignores an
installed session's options, so this applies only to graph mode.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from gpuconf.backends.tensorflow.devices import Record
from gpuconf.backends.tensorflow.session_config import limit_to_plan
from gpuconf.basics.setting import Setting
from gpuconf.errors import BackendError, TooLateError
from gpuconf.planner import Plan

_HINT = "graph-mode Keras is tf_keras: `pip install tf_keras`"


def leave_eager_mode(tf: Any) -> None:
    """Switch TensorFlow to graph mode; raise TooLateError if eager devices already exist."""
    if not tf.executing_eagerly():
        return
    try:
        tf.compat.v1.disable_eager_execution()
    except ValueError as error:
        raise TooLateError(
            f"graph mode must be enabled before TensorFlow is used: {error}",
            hint="make `import gpuconf.auto` the first line of the script",
        ) from error


def install(plan: Plan, tf: Any, record: Record) -> Any:
    """Build a ``tf.compat.v1.Session`` for ``plan``, give it to Keras, and return it.

    Creates the GPU devices. Raises BackendError in eager mode, where Keras would ignore the
    session, or if only Keras 3 is installed.
    """
    if tf.executing_eagerly():
        raise BackendError(
            "eager mode ignores an installed session",
            hint="call tf.compat.v1.disable_eager_execution() first, or use the profile "
            "keras-v1-session: `GPUCONF_PROFILE=keras-v1-session python train.py`",
        )
    backend = session_backend(tf)
    config, _ = limit_to_plan(tf.compat.v1.ConfigProto(allow_soft_placement=True), plan)
    session = tf.compat.v1.Session(config=config)
    backend.set_session(session)
    options = backend.get_session()._config.gpu_options
    asked = float(config.gpu_options.per_process_gpu_memory_fraction)
    seen = options.per_process_gpu_memory_fraction
    why = None if seen == asked else "Keras has a different session"
    name = "per_process_gpu_memory_fraction of the Keras session"
    record(Setting(name, f"{asked:.6g}", f"{seen:.6g}", why))
    return session


def session_backend(tf: Any) -> Any:
    """Return the Keras backend module with ``set_session``; raise BackendError if none has it."""
    for find in (lambda: tf.compat.v1.keras.backend, _tf_keras_backend):
        try:
            backend = find()
        except (ImportError, AttributeError):
            continue
        if hasattr(backend, "set_session"):
            return backend
    raise BackendError("this version of Keras has no set_session (Keras 3 never does)", hint=_HINT)


def _tf_keras_backend() -> ModuleType:
    # tf.compat.v1.keras is Keras 3 unless TF_USE_LEGACY_KERAS was set, even if tf_keras is used.
    return importlib.import_module("tf_keras.api._v1.keras").backend  # type: ignore[no-any-return]


def refuse_keras_3(keras: ModuleType) -> None:
    """Raise BackendError if ``keras`` is Keras 3, which cannot run the requested session."""
    version = str(getattr(keras, "__version__", ""))
    if version.partition(".")[0].isdigit() and int(version.partition(".")[0]) >= 3:
        raise BackendError(
            f"the profile needs a version-1 session (tensorflow.session: graph), but Keras "
            f"{version} has no set_session",
            hint=f"{_HINT}, and write `import tf_keras as keras` or use tf.keras; or restart with "
            "another profile: `GPUCONF_PROFILE=shared-desktop python ...`",
        )
