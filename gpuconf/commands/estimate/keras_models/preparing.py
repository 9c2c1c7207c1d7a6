"""Temporarily compiles a model with the options of an estimate."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuconf.commands.estimate.step import TraceSetting
from gpuconf.commands.estimate.tensorflow.abstract_variables import abstract_variables
from gpuconf.errors import UsageError
from gpuconf.support.keras_api.families import KerasFamily, has_own_step
from gpuconf.support.keras_api.jit import would_be_compiled
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.restoring import restored
from gpuconf.support.keras_api.variables import build_optimizer, is_built

_PRECISIONS = {
    True: "mixed_float16", "float16": "mixed_float16", "mixed_float16": "mixed_float16",
    "bfloat16": "mixed_bfloat16", "mixed_bfloat16": "mixed_bfloat16",
    False: "float32", "float32": "float32",
}  # fmt: skip


class EstimateChoice(NamedTuple):
    """Options for an estimate; None keeps the model's own setting.

    ``jit`` sets whether XLA compiles the step.
    """

    training: bool = True
    optimizer: Any = None
    loss: Any = None
    policy: str | None = None
    jit: bool | None = None


def policy_named(mixed_precision: Any) -> str | None:
    """Return Keras's dtype policy for True, False, ``bfloat16`` etc.; else raise UsageError."""
    if mixed_precision is None:
        return None
    try:
        return _PRECISIONS[mixed_precision]
    except (KeyError, TypeError):
        raise UsageError(
            f"mixed_precision={mixed_precision!r} is not supported",
            hint="pass True, False, 'mixed_float16', or 'mixed_bfloat16'",
        ) from None


DEFAULT_OPTIMIZER, DEFAULT_LOSS = "adam", "mean_squared_error"
_EAGER = "run_eagerly=True: the step is counted as a graph, which needs less memory"


@contextmanager
def prepared(model: Any, family: KerasFamily, choice: EstimateChoice) -> Iterator[TraceSetting]:
    """Apply the chosen optimizer, loss and precision to the model; yield the resulting setting.

    New optimizer state takes up no memory, and the model is restored afterwards.
    """
    notes = [_EAGER] if getattr(model, "run_eagerly", False) else []
    with restored(model), _precision(model, family, choice.policy):
        if choice.training:
            with abstract_variables():
                _compile(model, family, choice, notes)
                build_optimizer(model)
        yield _setting(model, family, choice, notes)


def _setting(
    model: Any, family: KerasFamily, choice: EstimateChoice, notes: list[str]
) -> TraceSetting:
    trains = choice.training
    optimizer = model.optimizer if trains else None
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of an optimizer that scales the loss
    return TraceSetting(
        training=trains,
        jit=_is_compiled(model, family, choice),
        precision=choice.policy or _policy(model),
        optimizer=type(inner).__name__ if trains else None,
        loss=_name_of(getattr(model, "loss", None)) if trains else None,
        backend=family.backend,
        framework=f"{family.backend} {_version(family)}, {family.name} {family.keras.__version__}",
        notes=tuple(notes),
    )


def _is_compiled(model: Any, family: KerasFamily, choice: EstimateChoice) -> bool:
    """Whether XLA compiles the step, as requested or as Keras decides."""
    if family.backend == "jax":
        return True
    return choice.jit if choice.jit is not None else would_be_compiled(model, family)


def _version(family: KerasFamily) -> str:
    return str(importlib.import_module(family.backend).__version__)


def _policy(model: Any) -> str:
    """Return the precision of most layers, since the model's own policy may differ."""
    layers = [each for each in layers_of(model) if each.weights]
    policies = [_policy_name(layer) for layer in layers] or [_policy_name(model)]
    return max(policies, key=policies.count)


def _policy_name(layer: Any) -> str:
    return str(layer.dtype_policy.name)


def _name_of(loss: Any) -> str | None:
    if loss is None or isinstance(loss, str):
        return loss
    if isinstance(loss, dict | list | tuple):
        each = loss.values() if isinstance(loss, dict) else loss
        return ", ".join(str(_name_of(one)) for one in each)
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", type(loss).__name__))


def _compile(model: Any, family: KerasFamily, choice: EstimateChoice, notes: list[str]) -> None:
    own = getattr(model, "optimizer", None)
    is_compiled = own is not None
    made = choice.optimizer is not None or not is_compiled or not is_built(own)
    optimizer = own
    if made:
        optimizer = _optimizer(choice.optimizer or own or DEFAULT_OPTIMIZER, family)
    if not is_compiled or choice.loss is not None:
        loss = choice.loss or getattr(model, "loss", None) or _assumed_loss(model, notes)
        if not is_compiled and choice.optimizer is None:
            notes.append("the model is not compiled: Adam is assumed")
        try:
            if isinstance(loss, str):
                family.keras.losses.get(loss)  # compile would only fail later, in the step
            model.compile(optimizer=optimizer, loss=loss)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the model cannot be compiled with loss {loss!r}: {error}",
                hint="pass a loss that Keras recognizes, such as 'mse'",
            ) from None
    elif made:
        model.optimizer = optimizer
    _scale_losses(model, family)


def _assumed_loss(model: Any, notes: list[str]) -> str | None:
    if has_own_step(model, "train_step"):
        return None  # a custom training step does not need one
    notes.append("the loss is unknown: mean squared error is assumed")
    return DEFAULT_LOSS


def _optimizer(wanted: Any, family: KerasFamily) -> Any:
    """Return a new optimizer like the one named or given, without state."""
    optimizers = family.keras.optimizers
    if not isinstance(wanted, str | dict | type) and hasattr(wanted, "get_config"):
        return type(wanted).from_config(wanted.get_config())
    try:
        return optimizers.get(wanted)
    except (TypeError, ValueError):
        raise UsageError(
            f"Keras has no optimizer {wanted!r}", hint="use a name such as adam, sgd, or rmsprop"
        ) from None


def _scale_losses(model: Any, family: KerasFamily) -> None:
    """Scale the loss and skip steps that overflow, as Keras does under mixed_float16."""
    if not family.is_keras_3 or model.dtype_policy.name != "mixed_float16":
        return
    scaling = family.keras.optimizers.LossScaleOptimizer
    if not isinstance(model.optimizer, scaling):
        model.optimizer = scaling(model.optimizer, name="loss_scale_optimizer")


@contextmanager
def _precision(model: Any, family: KerasFamily, policy: str | None) -> Iterator[None]:
    """Temporarily set a different dtype policy for all layers of the model."""
    if policy is None:
        yield
        return
    if not family.is_keras_3:
        raise UsageError(
            f"the precision of a {family.name} model is fixed when its layers are created",
            hint=f"{family.name}.mixed_precision.set_global_policy({policy!r}) before building it",
        )
    layers = layers_of(model, include_self=True)
    before = [(layer, layer.dtype_policy) for layer in layers]
    try:
        for layer, _ in before:
            layer.dtype_policy = policy
        yield
    finally:
        for layer, old in before:
            layer.dtype_policy = old
