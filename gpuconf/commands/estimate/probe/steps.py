"""The probe's steps in TensorFlow: runs two steps of the user's model at each batch size."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.commands.estimate.keras_models.data import Spec
from gpuconf.commands.estimate.keras_models.outputs import build
from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice, policy_named, prepared
from gpuconf.commands.estimate.loading import load_model
from gpuconf.commands.estimate.probe.order import Order
from gpuconf.commands.estimate.subject import Subject
from gpuconf.commands.estimate.tensorflow.abstract_variables import variables_with_memory
from gpuconf.errors import BackendError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_of
from gpuconf.support.keras_api.layers import layers_of

Report = Callable[..., None]
_DEVICE = "GPU:0"
_SEED = 20
# Integers valid for any model, if nothing shows what they index.
_SMALLEST = 2


def measure(order: Order, report: Report) -> None:
    """Run the model's steps as ordered, and report the statistics of TensorFlow's allocator.

    The same code prepares the model as for a trace, except that variables have memory.
    """
    import tensorflow as tf

    if order.is_simulated:
        tf.config.threading.set_inter_op_parallelism_threads(1)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        report("no-gpu")
        return
    details = tf.config.experimental.get_device_details(gpus[0])
    report("card", name=details.get("device_name", "GPU 0"))
    with variables_with_memory():
        _measure(order, report)


def _measure(order: Order, report: Report) -> None:
    report("doing", what="making the model")
    subject = _subject(order, report)
    batches = {size: subject.batch(size) for size in order.batch_sizes}
    build(subject.model, subject.family, batches[order.batch_sizes[0]].inputs)
    with prepared(subject.model, subject.family, subject.choice):
        _compute_as_traced(subject)
        for size, batch in batches.items():
            report("doing", what=f"two steps at batch {size}")
            first, second = _two_steps(subject, batch)
            report("measured", batch_size=size, peak_bytes=second, first_step_bytes=first)


def _subject(order: Order, report: Report) -> Subject:
    model, notes = load_model(order.target, folder=Path(order.folder))
    for note in notes:
        report("note", text=note)
    policy = policy_named(order.mixed_precision)
    choice = EstimateChoice(order.training, order.optimizer, order.loss, policy, order.jit)
    return Subject(model, family_of(model), choice, order.input_shape)


def _compute_as_traced(subject: Subject) -> None:
    """Use one graph, and XLA only if requested; Keras 3 would use it on a GPU by default."""
    model, choice = subject.model, subject.choice
    if subject.family.is_keras_3 or choice.training:
        model.jit_compile = choice.jit
        model.run_eagerly = False


def _two_steps(subject: Subject, batch: Any) -> tuple[int, int]:
    """Return the peaks of the first and of the second step, in bytes."""
    step = _step_on(subject, batch)
    peaks = []
    for _ in range(2):
        gc.collect()  # the trace of an earlier batch holds constants
        _reset_peak()
        step()
        peaks.append(_peak_bytes())
    if peaks[-1] == 0:
        raise BackendError(
            f"the model does not use {_DEVICE}, the GPU that is measured",
            hint="look for tf.device in the code of the model; or leave --probe out",
        )
    return peaks[0], peaks[1]


def _step_on(subject: Subject, batch: Any) -> Callable[[], object]:
    """Return a function that runs a step on a random batch, in a graph for this batch size only."""
    model, bounds = subject.model, bounds_of(subject.model)
    inputs = arrays_like(batch.inputs, bounds.inputs)
    if not subject.choice.training:
        model.make_predict_function(force=True)
        return lambda: model.predict_on_batch(inputs)
    targets = None if batch.targets is None else arrays_like(batch.targets, bounds.targets)
    model.make_train_function(force=True)
    return lambda: model.train_on_batch(inputs, targets)


def _reset_peak() -> None:
    import tensorflow as tf

    tf.config.experimental.reset_memory_stats(_DEVICE)


def _peak_bytes() -> int:
    import tensorflow as tf

    return int(tf.config.experimental.get_memory_info(_DEVICE)["peak"])


class Bounds(NamedTuple):
    """Upper bounds (exclusive) for the integers in inputs and targets."""

    inputs: int = _SMALLEST
    targets: int = _SMALLEST


def bounds_of(model: Any) -> Bounds:
    """Return how many entries the model's embeddings have, and how many classes its outputs have.

    The number of distinct integers matters, since an embedding's gradient has a row for each.
    """
    layers = layers_of(model)
    words = [layer.input_dim for layer in layers if _is_embedding(layer)]
    return Bounds(min(words, default=_SMALLEST), _classes(model))


def _is_embedding(layer: Any) -> bool:
    return type(layer).__name__.endswith("Embedding") and isinstance(
        getattr(layer, "input_dim", None), int
    )


def _classes(model: Any) -> int:
    """Return the smallest last dimension of the outputs; 1 means a single class, number 0."""
    import tensorflow as tf

    try:
        shapes = [tuple(output.shape) for output in tf.nest.flatten(model.outputs)]
    except (AttributeError, ValueError):  # a subclassed model has no outputs
        return _SMALLEST
    return min((int(shape[-1]) for shape in shapes if shape and shape[-1]), default=_SMALLEST)


def arrays_like(specs: Any, bound: int) -> Any:
    """Return NumPy arrays for specs, in the same structure: floats in 0 to 1, bounded integers."""
    import numpy as np

    generator = np.random.default_rng(_SEED)

    def array(spec: Spec) -> Any:
        shape, dtype = spec.shape, spec.dtype
        if dtype == "string":
            return np.full(shape, b"word", dtype=object)
        if dtype == "bool":
            return generator.random(shape) < 0.5
        if "int" in dtype:
            return generator.integers(0, bound, shape).astype(dtype)
        return generator.random(shape, dtype=np.float32).astype(dtype)

    return nests.mapped(array, specs)
