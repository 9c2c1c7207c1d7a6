"""What happens when tensorflow, keras, tf_keras or torch is really imported."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

from gpuconf import import_hook
from gpuconf.errors import ShortageError
from gpuconf.planner import Plan
from gpuconf.report import Activation
from gpuconf.terminal import say


def install(made: Activation, plan: Plan, late_shortage: ShortageError | None = None) -> None:
    """Apply ``plan`` to every framework at its import, at once to those already imported.

    ``late_shortage`` is raised when TensorFlow is about to make its first device, and said where
    another framework is imported.
    """
    import_hook.on_import("tensorflow", partial(_on_tensorflow, made, plan, late_shortage))
    import_hook.on_import("keras", partial(_on_keras, made, plan))
    import_hook.on_import("tf_keras", partial(_on_keras, made, plan))
    import_hook.on_import("torch", partial(_on_torch, made, plan, late_shortage))
    if late_shortage is not None:
        import_hook.on_import("jax", partial(_tell_of_shortage, late_shortage))


def refuse_if_too_late() -> None:
    """Raise TooLateError if an imported TensorFlow has made its devices already."""
    if _imported_tensorflow() is not None:
        from gpuconf.backends.tensorflow import runtime

        runtime.refuse_if_too_late()


def install_session(made: Activation, plan: Plan) -> object:
    """Give Keras a version-1 session made from ``plan``, once; return it."""
    import tensorflow

    from gpuconf.backends import keras_session

    if made.session is None:
        made.session = keras_session.install(plan, tensorflow, made.record)
    return made.session


def _imported_tensorflow() -> ModuleType | None:
    return None if import_hook.is_running("tensorflow") else sys.modules.get("tensorflow")


def _on_tensorflow(
    made: Activation, plan: Plan, late_shortage: ShortageError | None, tensorflow: ModuleType
) -> None:
    from gpuconf.backends.tensorflow import runtime

    def before_devices() -> None:
        if late_shortage is not None:
            raise late_shortage

    # TensorFlow imports its Keras on the way; what that asks for had to wait for TensorFlow.
    kerases = [sys.modules[name] for name in ("keras", "tf_keras") if name in sys.modules]
    for keras in kerases:
        _refuse_unfit(keras, plan)  # before anything is set that could not be taken back
    runtime.apply(plan, tensorflow, made.record, before_devices=before_devices)
    for keras in kerases:
        _on_keras(made, plan, keras)


def _on_keras(made: Activation, plan: Plan, keras: ModuleType) -> None:
    tensorflow = _imported_tensorflow()
    if tensorflow is None or import_hook.is_running(keras.__name__):
        return  # the import that is still running comes back here
    from gpuconf.backends import keras_session
    from gpuconf.backends.tensorflow import devices, lateness

    _refuse_unfit(keras, plan)
    if plan.profile.tensorflow.session == "graph":
        install_session(made, plan)
    elif keras_session.keras_runs_elsewhere() and lateness.devices_exist() is None:
        devices.hide(tensorflow, made.record)


def _refuse_unfit(keras: ModuleType, plan: Plan) -> None:
    if plan.profile.tensorflow.session == "graph":
        from gpuconf.backends import keras_session

        keras_session.refuse_keras_3(keras)


def _on_torch(
    made: Activation, plan: Plan, late_shortage: ShortageError | None, torch_module: ModuleType
) -> None:
    from gpuconf.backends import torch

    if late_shortage is not None:
        _tell_of_shortage(late_shortage, torch_module)
    torch.apply(plan, torch_module, made.record)


def _tell_of_shortage(shortage: ShortageError, framework: ModuleType) -> None:
    """JAX and torch cannot be stopped when they make devices, so a worker is at least told."""
    say(f"{framework.__name__} in this worker process sees no GPU: {shortage.shortage}")
