"""Changes to a model that save memory, made for a while."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuconf.errors import UsageError
from gpuconf.footprint.keras_models.data import inputs_of
from gpuconf.footprint.tensorflow.abstract_variables import abstract_variables
from gpuconf.keras_api.families import KerasFamily
from gpuconf.keras_api.layers import is_leaf, layers_of, leaves_with_weights, recomputed

if TYPE_CHECKING:
    from gpuconf.footprint.subject import Subject

_SHARE = 0.75


@contextmanager
def frozen_but_the_head(model: Any) -> Iterator[None]:
    """Only the last layer that has weights is trained, as in transfer learning.

    Raises UsageError where there is no other to freeze.
    """
    leaves = leaves_with_weights(model)
    last = {id(variable) for variable in model.trainable_variables[-1:]}
    frozen = [layer for layer in leaves if not last & {id(weight) for weight in layer.weights}]
    if not frozen or len(frozen) == len(leaves):
        raise UsageError("there is one layer with weights", hint="nothing can be frozen")
    before = [(layer, layer.trainable) for layer in frozen]
    try:
        for layer in frozen:
            layer.trainable = False
        yield
    finally:
        for layer, was_trainable in before:
            layer.trainable = was_trainable


@contextmanager
def recomputing(model: Any, family: KerasFamily) -> Iterator[None]:
    """Layers compute their results again in the backward pass, instead of keeping them.

    Not those whose call takes ``training`` or a mask: Keras cannot do these in a traced step.
    Raises UsageError where this Keras can do none.
    """
    with recomputed([each for each in layers_of(model) if _can_recompute(each)], family):
        yield


def _can_recompute(layer: Any) -> bool:
    return is_leaf(layer) and not {"training", "mask"} & set(
        inspect.signature(layer.call).parameters
    )


@contextmanager
def with_smaller_inputs(subject: Subject) -> Iterator[Subject]:
    """A subject whose inputs have 3/4 of the side: pictures, films, sequences.

    The model is built anew, without memory.  Raises UsageError for a model that cannot be.
    """
    import tensorflow as tf

    specs = inputs_of(subject.model, 1, subject.input_shape)
    leaves = tf.nest.flatten(specs)
    if len(leaves) != 1 or leaves[0].shape.rank < 3:
        raise UsageError("there are no pictures to be made smaller", hint="nothing to do")
    shape = leaves[0].shape.as_list()
    smaller = [round(side * _SHARE) for side in shape[1:-1]] + shape[-1:]
    if subject.input_shape is not None:
        yield dataclasses.replace(subject, input_shape=tuple(smaller))
        return
    keras = subject.family.keras
    with abstract_variables():
        new_input = keras.Input(shape=tuple(smaller), dtype=leaves[0].dtype.name)
        try:
            model = keras.models.clone_model(subject.model, input_tensors=[new_input])
        except Exception as error:  # of the model's own layers, of any kind
            reason = type(error).__name__
            raise UsageError(f"it cannot be built for smaller inputs: {reason}") from error
    choice = subject.choice
    if choice.training:
        own = subject.model
        choice = choice._replace(
            optimizer=choice.optimizer or getattr(own, "optimizer", None),
            loss=choice.loss or getattr(own, "loss", None),
        )
    yield dataclasses.replace(subject, model=model, choice=choice)
