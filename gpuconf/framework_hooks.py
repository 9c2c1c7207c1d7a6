"""What happens when tensorflow, keras, tf_keras, torch, jax, cupy or numba.cuda is imported.

Before its code runs, the plan is made; after it, its backend sees to it that the plan binds when
devices are listed or made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, ModuleType

from gpuconf import import_hook
from gpuconf.binding import Binding
from gpuconf.callsite import top_package
from gpuconf.errors import GpuconfError
from gpuconf.settings import Setting
from gpuconf.terminal import say
from gpuconf.tripwire import Tripwire

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.profile import Profile

_KERAS = ("keras", "tf_keras")
# Frames between an import statement and our hook.
_ON_THE_WAY = ("gpuconf", "importlib", "_frozen_importlib", "_frozen_importlib_external")
_tripwire = Tripwire()


def install(binding: Binding) -> None:
    """Hold every framework to ``binding`` from its import on, those already imported at once."""
    for name, hook in _HOOKS.items():
        import_hook.on_import(
            name,
            lambda module, hook=hook: hook(binding, module),  # type: ignore[misc]
            before=binding.prepare,
        )
    _tripwire.arm(binding.prepare_for_program, lambda name: _catch_up(binding, name))


def undo_install(binding: Binding) -> None:
    """After a profile that was refused: the one before holds again, or nothing does."""
    for name in _HOOKS:
        import_hook.forget(name)
    _tripwire.disarm()
    tensorflow = _imported_tensorflow()
    if tensorflow is not None:
        from gpuconf.backends.tensorflow import runtime

        runtime.release()
    if binding.profile is not None:
        with suppress(GpuconfError):  # the one that is on its way says enough
            install(binding)


def after_fork(binding: Binding) -> None:
    """In a forked child: no lock is held, and what the parent made is not the child's."""
    binding.after_fork()
    runtime = sys.modules.get("gpuconf.backends.tensorflow.runtime")
    if runtime is not None:
        runtime.after_fork()


def refuse_if_too_late() -> None:
    """Raise TooLateError if an imported TensorFlow has made its devices already."""
    if _imported_tensorflow() is not None:
        from gpuconf.backends.tensorflow import runtime

        runtime.refuse_if_too_late()


def install_session(binding: Binding) -> object:
    """Give Keras a version-1 session made from the bound plan, once; return it."""
    import tensorflow

    from gpuconf.backends import keras_session

    made = binding.activation
    if made is not None and made.session is None:
        binding.bind(lambda _plan: None)
        if made.plan is not None:
            made.session = keras_session.install(made.plan, tensorflow, made.record)
    return None if made is None else made.session


def _imported_tensorflow() -> ModuleType | None:
    """TensorFlow once its code has run; one that another thread is importing must be left alone."""
    if import_hook.is_running("tensorflow") or not import_hook.is_whole("tensorflow"):
        return None
    return sys.modules["tensorflow"]


def _catch_up(binding: Binding, name: str) -> None:
    """Hold a framework that came in past its hook; say so where that is too late."""
    binding.prepare_for_program()  # the figures may be short, which the framework itself will say
    try:
        import_hook.meet(name)
    except GpuconfError as error:
        why = f"it was imported past gpuconf's hook: {error.message}"
        setting = Setting(f"plan of {name}", "holds", "does not hold", why)
        binding.record(setting)
        say(str(setting))
        import_hook.forget(name)


def _on_tensorflow(binding: Binding, tensorflow: ModuleType) -> None:
    from gpuconf.backends.tensorflow import runtime

    profile = binding.profile
    if profile is None or runtime.is_held_with_devices():
        return  # a reload
    # TensorFlow imports its Keras on the way; what that asks for had to wait for TensorFlow.
    kerases = [sys.modules[name] for name in _KERAS if import_hook.is_whole(name)]
    for keras in kerases:
        _refuse_unfit(keras, profile)  # before anything is set that could not be taken back
    runtime.apply(profile, tensorflow, binding)
    for keras in kerases:
        _on_keras(binding, keras)


def _on_keras_import(binding: Binding, keras: ModuleType) -> None:
    _note_importer()
    _on_keras(binding, keras)


def _on_keras(binding: Binding, keras: ModuleType) -> None:
    profile = binding.profile
    if profile is None or _imported_tensorflow() is None or import_hook.is_running(keras.__name__):
        return  # the import that is still running comes back here
    from gpuconf.backends.tensorflow import runtime
    from gpuconf.binding import is_worker

    _refuse_unfit(keras, profile)
    if profile.tensorflow.session != "graph":
        runtime.reconsider()
    elif not is_worker():
        install_session(binding)


def _note_importer() -> None:
    """Whether the program imported Keras, or TensorFlow did so for itself."""
    from gpuconf.backends import keras_backend

    frame: FrameType | None = sys._getframe(1)
    while frame is not None and top_package(frame) in _ON_THE_WAY:
        frame = frame.f_back
    if frame is not None and top_package(frame) not in ("tensorflow", *_KERAS):
        keras_backend.imported_by_program = True


def _refuse_unfit(keras: ModuleType, profile: Profile) -> None:
    if profile.tensorflow.session == "graph":
        from gpuconf.backends import keras_session

        keras_session.refuse_keras_3(keras)


def _on_torch(binding: Binding, torch_module: ModuleType) -> None:
    from gpuconf.backends import torch

    torch.watch(torch_module, binding.bind, binding.record)


def _on_jax(binding: Binding, _jax: ModuleType) -> None:
    from gpuconf.backends import jax

    why = jax.watch(binding.bind, binding.record)
    if why:
        say(why)


def _on_others(_binding: Binding, _module: ModuleType) -> None:
    """Their variables are all there is to set."""


_HOOKS: dict[str, Callable[[Binding, ModuleType], None]] = {
    "tensorflow": _on_tensorflow,
    **dict.fromkeys(_KERAS, _on_keras_import),
    "torch": _on_torch,
    "jax": _on_jax,
    "cupy": _on_others,
    "numba.cuda": _on_others,
}
