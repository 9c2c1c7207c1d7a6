"""What happens when tensorflow, keras, tf_keras, torch or jax is really imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

from gpuconf import import_hook
from gpuconf.errors import ShortageError
from gpuconf.planner import Plan
from gpuconf.report import Activation
from gpuconf.terminal import say

# Gives the activation in force at the moment of the import, which may be newer than the hook.
InForce = Callable[[], Activation]


def install(in_force: InForce) -> None:
    """Apply the plan to every framework at its import, at once to those already imported."""
    hooks = {
        "tensorflow": _on_tensorflow,
        "keras": _on_keras,
        "tf_keras": _on_keras,
        "torch": _on_torch,
        "jax": _on_jax,
    }
    for name, hook in hooks.items():
        import_hook.on_import(name, lambda module, hook=hook: hook(in_force, module))  # type: ignore[misc]


def release() -> None:
    """Undo :func:`install`: no hook runs, and an imported TensorFlow is left alone."""
    for name in ("tensorflow", "keras", "tf_keras", "torch", "jax"):
        import_hook.forget(name)
    if _imported_tensorflow() is not None:
        from gpuconf.backends.tensorflow import runtime

        runtime.release()


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


def _on_tensorflow(in_force: InForce, tensorflow: ModuleType) -> None:
    from gpuconf.backends.tensorflow import runtime

    made = in_force()
    if made.plan is None:
        return
    # TensorFlow imports its Keras on the way; what that asks for had to wait for TensorFlow.
    kerases = [sys.modules[name] for name in ("keras", "tf_keras") if name in sys.modules]
    for keras in kerases:
        _refuse_unfit(keras, made.plan)  # before anything is set that could not be taken back

    def before_devices() -> None:
        if made.put_off is not None:
            raise made.put_off

    runtime.apply(made.plan, tensorflow, made.record, before_devices=before_devices)
    for keras in kerases:
        _on_keras(in_force, keras)


def _on_keras(in_force: InForce, keras: ModuleType) -> None:
    tensorflow, made = _imported_tensorflow(), in_force()
    if made.plan is None or tensorflow is None or import_hook.is_running(keras.__name__):
        return  # the import that is still running comes back here
    from gpuconf.backends import keras_backend
    from gpuconf.backends.tensorflow import devices, lateness

    _refuse_unfit(keras, made.plan)
    if made.plan.profile.tensorflow.session == "graph":
        if not made.is_worker:
            install_session(made, made.plan)
    elif keras_backend.elsewhere() and lateness.devices_exist() is None:
        devices.hide(tensorflow, made.record)


def _refuse_unfit(keras: ModuleType, plan: Plan) -> None:
    if plan.profile.tensorflow.session == "graph":
        from gpuconf.backends import keras_session

        keras_session.refuse_keras_3(keras)


def _on_torch(in_force: InForce, torch_module: ModuleType) -> None:
    from gpuconf.backends import torch

    made = in_force()
    _tell_of_shortage(made.put_off, torch_module)
    if made.plan is not None:
        torch.apply(made.plan, torch_module, made.record)


def _on_jax(in_force: InForce, jax: ModuleType) -> None:
    _tell_of_shortage(in_force().put_off, jax)


def _tell_of_shortage(shortage: ShortageError | None, framework: ModuleType) -> None:
    """JAX and torch cannot be stopped when they make devices, so a worker is at least told."""
    if shortage is not None:
        name = framework.__name__
        say(f"{name} in this worker process sees no GPU: {shortage.shortage}")
