"""Keras's decision on whether XLA compiles a model's steps, as on a machine with a GPU."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from gpuconf.session.import_hook import ImportHooks
from gpuconf.support.keras_api.families import KerasFamily
from gpuconf.support.keras_api.graphs import as_on_a_gpu
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.patching import wrap
from gpuconf.support.keras_api.training import trainer_classes

_ASKED = "_gpuconf_jit_compile"


def note_jit_compile(keras: str) -> None:
    """From now on, record the ``jit_compile`` argument of this Keras's ``compile``.

    Without a GPU, Keras 3 replaces "auto" with False, and does not store the original value.
    """

    def around(original: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        try:
            bound = inspect.signature(original).bind(*args, **kwargs)
            bound.apply_defaults()
            object.__setattr__(args[0], _ASKED, bound.arguments.get("jit_compile"))
        except (TypeError, AttributeError):  # an unknown kind of model
            return result
        return result

    for owner in trainer_classes(keras):
        # Keras 3 does not restore a model whose class has a different `compile` than its base.
        base = next(each for each in owner.__mro__ if "compile" in vars(each))
        wrap(base, "compile", around)


def watch_jit_compile() -> None:
    """Call `note_jit_compile` for each Keras as soon as it is imported."""
    hooks = ImportHooks()
    for name in ("keras", "tf_keras"):
        hooks.set(name, lambda module: note_jit_compile(module.__name__))
        if name in sys.modules:
            note_jit_compile(name)


def is_compiled(model: Any) -> bool:
    """Whether Keras compiles the model's steps with XLA here.

    Keras 3 resolves ``jit_compile="auto"`` in ``compile``: to True if a GPU is visible and every
    layer supports it.
    """
    return getattr(model, "jit_compile", None) is True and not getattr(model, "run_eagerly", False)


def would_be_compiled(model: Any, family: KerasFamily) -> bool:
    """Whether Keras would compile the model's steps with XLA on a machine with a GPU.

    Keras 3 does so for ``jit_compile="auto"``, its default, if each layer supports it; Keras 2 for
    ``jit_compile=True``.  If a Keras 3 model was compiled without `note_jit_compile` and without a
    GPU, "auto" and False are indistinguishable, and "auto" is assumed.
    """
    if getattr(model, "run_eagerly", False):
        return False
    if is_compiled(model) or not family.is_keras_3:
        return is_compiled(model)
    if getattr(model, _ASKED, None) is False or _is_deterministic(family):
        return False
    return all(_supports_jit(each, family) for each in layers_of(model, include_self=True))


def _is_deterministic(family: KerasFamily) -> bool:
    """Whether TensorFlow is set to be deterministic, in which case Keras does not use XLA."""
    if family.backend != "tensorflow":
        return False
    try:
        from tensorflow.python.framework.config import is_op_determinism_enabled
    except ImportError:
        return False
    return bool(is_op_determinism_enabled())


def _supports_jit(layer: Any, family: KerasFamily) -> bool:
    """Whether Keras would compile the layer on a machine with a GPU.

    LSTM and GRU check for cuDNN when they are constructed, which in this case happened without a
    GPU.
    """
    if not getattr(layer, "supports_jit", True):
        return False
    layers = family.keras.layers
    if family.backend != "tensorflow" or not isinstance(layer, (layers.LSTM, layers.GRU)):
        return True
    try:
        from keras.src.backend import cudnn_ok
    except ImportError:
        return True
    if getattr(layer, "use_cudnn", "auto") not in (True, "auto"):
        return True
    cell = layer.cell
    of_gru = {"reset_after": layer.reset_after} if isinstance(layer, layers.GRU) else {}
    asked = (cell.activation, cell.recurrent_activation, layer.unroll, cell.use_bias)
    with as_on_a_gpu():
        return not cudnn_ok(*asked, **of_gru)
