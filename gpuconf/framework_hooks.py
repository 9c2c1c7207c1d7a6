"""What happens when tensorflow, keras, tf_keras, torch, jax, cupy or numba.cuda is imported.

Before its code runs, the plan is made; after it, its backend sees to it that the plan binds when
devices are listed or made.
"""

from __future__ import annotations

import sys

from gpuconf import import_hook
from gpuconf.backends.entrances import ENTRANCES
from gpuconf.binding import Binding
from gpuconf.callsite import top_package
from gpuconf.errors import GpuconfError, TooLateError
from gpuconf.settings import Setting
from gpuconf.terminal import say
from gpuconf.tripwire import Tripwire

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType

    from gpuconf.profile import Profile

_KERAS = ("keras", "tf_keras")
# Frames between an import statement and our hook.
_ON_THE_WAY = ("gpuconf", "importlib", "_frozen_importlib", "_frozen_importlib_external")
_tripwire = Tripwire(ENTRANCES)


def install(binding: Binding) -> None:
    """Hold every framework to ``binding`` from its import on, those already imported at once."""
    for name, hook in _HOOKS.items():
        import_hook.on_import(
            name,
            lambda module, hook=hook: hook(binding, module),  # type: ignore[misc]
            before=binding.prepare,
        )
    _tripwire.arm(binding.prepare_for_program, lambda name: _catch_up(binding, name))


def undo_install(binding: Binding, *, is_first: bool) -> None:
    """After a profile that was refused: the one before holds on, or nothing does.

    The hooks ask ``binding``, so they serve the profile before as they are.
    """
    runtime = sys.modules.get("gpuconf.backends.tensorflow.runtime")
    if not is_first:
        if runtime is not None:
            runtime.hold_again(binding)
        return
    for name in _HOOKS:
        import_hook.forget(name)
    _tripwire.disarm()
    if runtime is not None:
        runtime.release()


def after_fork(binding: Binding) -> None:
    """In a forked child: no lock is held, and what the parent made is not the child's."""
    binding.after_fork()
    _tripwire.after_fork()
    runtime = sys.modules.get("gpuconf.backends.tensorflow.runtime")
    if runtime is not None:
        runtime.after_fork()


def refuse_if_too_late(binding: Binding) -> None:
    """Raise TooLateError if a framework whose limit cannot be changed has made its devices."""
    if _imported_tensorflow() is not None:
        from gpuconf.backends.tensorflow import runtime

        runtime.refuse_if_too_late()
    jax = sys.modules.get("gpuconf.backends.jax.lateness")
    if binding.is_bound and jax is not None and jax.has_gpu_backend():
        raise TooLateError(
            "JAX has already made its GPU backend, and keeps the limit that it has",
            hint="restart with the profile you want: `GPUCONF_PROFILE=NAME python ...`",
        )


def install_session(binding: Binding) -> object:
    """Give Keras a version-1 session made from the bound plan, once; return it."""
    import tensorflow

    from gpuconf.backends import keras_session

    binding.bind(lambda _plan: None)  # which may put another activation in force
    made = binding.activation
    if made is not None and made.session is None and made.plan is not None:
        made.session = keras_session.install(made.plan, tensorflow, made.record)
    return None if made is None else made.session


def _imported_tensorflow() -> ModuleType | None:
    """TensorFlow once its code has run; one that another thread is importing must be left alone."""
    if import_hook.is_running("tensorflow") or not import_hook.is_whole("tensorflow"):
        return None
    return sys.modules["tensorflow"] if _is_tensorflow() else None


def _is_tensorflow() -> bool:
    """Whether it is TensorFlow that is imported under that name, and no stub or folder."""
    return ENTRANCES["tensorflow"].module in sys.modules


def _catch_up(binding: Binding, name: str) -> None:
    """Hold a framework that came in past its hook; say so where that is too late."""
    binding.prepare_for_program()  # the figures may be short, which the framework itself will say
    try:
        import_hook.meet(name)
    except Exception as error:  # the import that brought us here is the user's
        reason = error.message if isinstance(error, GpuconfError) else repr(error)
        why = f"it was imported without gpuconf's hook: {reason}"
        setting = Setting(f"plan of {name}", "in force", "not in force", why)
        binding.record(setting)
        say(str(setting))
        import_hook.forget(name)


def _on_tensorflow(binding: Binding, tensorflow: ModuleType) -> None:
    from gpuconf.backends.tensorflow import runtime

    profile = binding.profile
    if profile is None or not _is_tensorflow() or runtime.is_held_with_devices():
        return  # the last: a reload
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
    from gpuconf.worker_process import is_worker

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
        if frame.f_globals.get("__name__") in ("gpuconf.bootstrap", "gpuconf.tripwire"):
            return  # imported before gpuconf: its importer is unknown
        frame = frame.f_back
    if frame is not None and top_package(frame) not in ("tensorflow", *_KERAS):
        keras_backend.imported_by_program = True


def _refuse_unfit(keras: ModuleType, profile: Profile) -> None:
    if profile.tensorflow.session == "graph":
        from gpuconf.backends import keras_session

        keras_session.refuse_keras_3(keras)


def _on_torch(binding: Binding, torch_module: ModuleType) -> None:
    from gpuconf.backends.torch import watching

    watching.watch(torch_module, binding, binding.profile)


def _on_jax(binding: Binding, _jax: ModuleType) -> None:
    from gpuconf.backends.jax import client

    client.watch(binding)


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
