"""What happens when tensorflow, keras, tf_keras, torch, jax, cupy or numba.cuda is imported.

The plan is made before the framework's code runs. Afterwards its backend arranges for the plan to
take effect when devices are listed or created.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType

from gpuconf.backends.wrapping import ENTRANCES
from gpuconf.basics.callsite import top_package
from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import say
from gpuconf.errors import GpuconfError, TooLateError
from gpuconf.profile import Profile
from gpuconf.session import import_hook
from gpuconf.session.audit_hook import AuditHook
from gpuconf.session.binding import Binding
from gpuconf.session.import_hook import hooks

_KERAS = ("keras", "tf_keras")
# Frames between an import statement and our hook.
_ON_THE_WAY = ("gpuconf", "importlib", "_frozen_importlib", "_frozen_importlib_external")
_audit_hook = AuditHook()


def install(binding: Binding) -> None:
    """Apply ``binding`` to every framework when it is imported, or now if it already has been."""
    for name, hook in _HOOKS.items():
        import_hook.on_import(
            name,
            lambda module, hook=hook: hook(binding, module),  # type: ignore[misc]
            before=binding.prepare,
        )
    _audit_hook.arm(lambda name: _catch_up(binding, name))


def undo_install(binding: Binding, *, is_first: bool) -> None:
    """Undo :func:`install` after a rejected profile: restore the previous profile, if there was
    one.

    The hooks ask ``binding`` for its profile, so they work unchanged for the previous profile.
    """
    runtime = sys.modules.get("gpuconf.backends.tensorflow.runtime")
    if not is_first:
        if runtime is not None:
            runtime.hold_again(binding)
        return
    for name in _HOOKS:
        hooks.drop(name)
    _audit_hook.disarm()
    if runtime is not None:
        runtime.release()


def after_fork(binding: Binding) -> None:
    """Reset the state in a forked child: it holds no lock and owns nothing that is its parent's."""
    binding.after_fork()
    _audit_hook.after_fork()
    runtime = sys.modules.get("gpuconf.backends.tensorflow.runtime")
    if runtime is not None:
        runtime.after_fork()


def refuse_if_too_late(binding: Binding) -> None:
    """Raise TooLateError if a framework whose limit is now fixed has created its devices."""
    # After a refused import TensorFlow is not in sys.modules, but may have initialized its GPUs.
    loaded = sys.modules.get("gpuconf.backends.tensorflow.runtime")
    has_devices = loaded is not None and loaded.is_held_with_devices()
    if has_devices or _imported_tensorflow() is not None:
        from gpuconf.backends.tensorflow import runtime

        runtime.refuse_if_too_late()
    jax = sys.modules.get("gpuconf.backends.jax.early_init")
    if binding.is_bound and jax is not None and jax.has_gpu_backend():
        raise TooLateError(
            "too late: JAX has initialized its GPU client, and its limit can no longer be changed",
            hint="restart with the profile you want: `GPUCONF_PROFILE=NAME python ...`",
        )


def install_session(binding: Binding) -> object:
    """Give Keras a version-1 session made from the bound plan, but only once; return it."""
    import tensorflow

    from gpuconf.backends import keras_session

    binding.bind(lambda _plan: None)  # may set another activation
    made = binding.activation
    if made is not None and made.session is None and made.plan is not None:
        made.session = keras_session.install(made.plan, tensorflow, made.record)
    return None if made is None else made.session


def _imported_tensorflow() -> ModuleType | None:
    """Return TensorFlow once its code has run; None while another thread is still importing it."""
    if "tensorflow" in hooks.running or not import_hook.is_whole("tensorflow"):
        return None
    return sys.modules["tensorflow"] if _is_tensorflow() else None


def _is_tensorflow() -> bool:
    """Whether the module of that name is TensorFlow itself, not a stub or a folder."""
    return ENTRANCES["tensorflow"].module in sys.modules


def _catch_up(binding: Binding, name: str) -> None:
    """Apply the binding to a framework that bypassed its hook; report it if that is too late.

    The plan is made when the framework lists or creates its devices.
    """
    try:
        hooks.run(name, sys.modules[name])
    except Exception as error:  # the import that triggered this belongs to the user
        reason = error.message if isinstance(error, GpuconfError) else repr(error)
        why = f"it was imported without gpuconf's hook: {reason}"
        setting = Setting(f"plan of {name}", "active", "not active", why)
        binding.record(setting)
        say(str(setting))
        hooks.drop(name)


def _on_tensorflow(binding: Binding, tensorflow: ModuleType) -> None:
    if binding.profile is None or not _is_tensorflow():
        return
    _despite_interrupt(lambda: _hold_tensorflow(binding, tensorflow))
    # TensorFlow imports its Keras while it loads; the Keras hook had to wait for TensorFlow.
    kerases = [sys.modules[name] for name in _KERAS if import_hook.is_whole(name)]
    for keras in kerases:
        _refuse_unfit(keras, binding.profile)  # before setting anything that cannot be undone
    from gpuconf.backends.tensorflow import runtime

    if runtime.is_held_with_devices():
        return  # a reload
    runtime.apply(binding.profile, tensorflow)
    for keras in kerases:
        _on_keras(binding, keras)


def _despite_interrupt(hold: Callable[[], None]) -> None:
    """Call ``hold``; if Ctrl-C interrupts it, call it once more.

    The program may continue with what the import has loaded, such as Keras, without the module
    itself.
    """
    try:
        hold()
    except KeyboardInterrupt:
        hold()
        raise


def _hold_tensorflow(binding: Binding, tensorflow: ModuleType) -> None:
    """Hold TensorFlow to the plan, before any step that may refuse its import."""
    from gpuconf.backends.tensorflow import runtime

    if not runtime.is_held_with_devices():
        runtime.hold(tensorflow, binding)


def _on_keras_import(binding: Binding, keras: ModuleType) -> None:
    _note_importer()
    _on_keras(binding, keras)


def _on_keras(binding: Binding, keras: ModuleType) -> None:
    profile = binding.profile
    if profile is None or _imported_tensorflow() is None or keras.__name__ in hooks.running:
        return  # the import still in progress calls this again
    from gpuconf.backends.tensorflow import runtime
    from gpuconf.basics.processes import is_worker

    _refuse_unfit(keras, profile)
    if profile.tensorflow.session != "graph":
        runtime.reconsider()
    elif not is_worker():
        install_session(binding)


def _note_importer() -> None:
    """Record whether the program imported Keras, or TensorFlow did for its own use."""
    from gpuconf.backends import keras_backend

    frame: FrameType | None = sys._getframe(1)
    while frame is not None and top_package(frame) in _ON_THE_WAY:
        if frame.f_globals.get("__name__") in (
            "gpuconf.session.configure",
            "gpuconf.session.audit_hook",
        ):
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

    _despite_interrupt(lambda: watching.watch(torch_module, binding))


def _on_jax(binding: Binding, _jax: ModuleType) -> None:
    from gpuconf.backends.jax import client

    _despite_interrupt(lambda: client.watch(binding))


def _on_others(_binding: Binding, _module: ModuleType) -> None:
    """Do nothing: these frameworks are configured by environment variables only."""


_HOOKS: dict[str, Callable[[Binding, ModuleType], None]] = {
    "tensorflow": _on_tensorflow,
    **dict.fromkeys(_KERAS, _on_keras_import),
    "torch": _on_torch,
    "jax": _on_jax,
    "cupy": _on_others,
    "numba.cuda": _on_others,
}
