"""What a script was about to train: a model or its own step, and the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.estimate.keras_models.data import Spec, shown
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import batches, nests
from gpuconf.support.keras_api.families import family_on_any_backend
from gpuconf.support.keras_api.stepping import is_called_by_us
from gpuconf.support.keras_api.variables import bytes_of

_ASSUMED_LOSS = "mean_squared_error"
_ON_THE_HOST = ("str", "bytes", "object")  # texts never go to a GPU


class Training(NamedTuple):
    """A step that was about to be trained.

    ``subject`` is a Keras model or a :class:`StepFunction`.  ``data`` is a batch of specs as in
    ``fit``, None for a function.  ``optimizer`` and ``loss`` are those of the script's own loop.
    ``jit`` sets whether XLA compiles it, None for Keras's decision.  ``notes`` say where all of
    this was found.  ``examples`` is the number of training examples, None if unknown.  ``arrays``
    are the sizes in bytes of the arrays that Keras copies to the GPU in addition to the batches.
    """

    subject: Any
    batch_size: int
    data: Any = None
    optimizer: Any = None
    loss: Any = None
    jit: bool | None = None
    notes: tuple[str, ...] = ()
    examples: int | None = None
    arrays: tuple[int, ...] = ()


def of_fit(arguments: dict[str, Any], place: str) -> Training:
    """Return what ``fit(**arguments)`` would train; raise UsageError for unknown types of data."""
    data = _batch_of_fit(arguments)
    if arguments.get("class_weight") is not None and len(data) == 2:
        data = (*data, Spec((batches.examples(data) or 1,), "float32"))
    found = _of_model(arguments["self"], data, f"fit() at {place}")
    x, arrays = arguments.get("x"), _arrays(arguments)
    return found._replace(
        jit=False if is_called_by_us(arguments["self"]) else None,  # `compiled`: without XLA
        notes=(*found.notes, *_on_arrays(sum(arrays))),
        examples=batches.examples(x) if batches.is_array(x) else None,
        arrays=arrays,
    )


def of_train_on_batch(arguments: dict[str, Any], place: str) -> Training:
    """Return what ``train_on_batch(**arguments)`` would train."""
    given = [arguments.get(name) for name in batches.PER_EXAMPLE]
    return _of_model(arguments["self"], _specs(given, None), f"train_on_batch() at {place}")


def _of_model(model: Any, data: Any, where: str) -> Training:
    batch = batches.examples(nests.leaves(data))
    if batch is None:
        raise refused("the batch has no examples", where)
    return Training(model, batch, data, notes=(f"from {where}: batch {batch} of {shown(data)}",))


def _arrays(arguments: dict[str, Any]) -> tuple[int, ...]:
    """Return the sizes of the whole arrays that Keras copies to the GPU."""
    validation = arguments.get("validation_data")
    given = [arguments.get(name) for name in batches.PER_EXAMPLE]
    given += validation if isinstance(validation, tuple) else [validation]
    arrays = [leaf for each in given if batches.is_array(each) for leaf in nests.leaves(each)]
    specs = [_spec(leaf, None, is_cast=True) for leaf in arrays]
    return tuple(bytes_of(spec) for spec in specs if not spec.dtype.startswith(_ON_THE_HOST))


def _on_arrays(size_bytes: int) -> tuple[str, ...]:
    """Return a note on how to keep large arrays on the host."""
    if size_bytes < MIB:
        return ()
    return (
        f"fit() copies whole arrays to the GPU: {sized(size_bytes)} at any batch size; "
        "a tf.data.Dataset from a generator or files, or gpuconf.fit, keeps them on the host",
    )


def _batch_of_fit(arguments: dict[str, Any]) -> tuple[Any, ...]:
    """Return the specs of the first batch."""
    data = arguments.get("x")
    if not batches.is_array(data):
        return _of_batches(data)
    wanted = arguments.get("batch_size") or batches.DEFAULT_SIZE
    batch = min(wanted, batches.examples(data) or wanted)
    return _specs([arguments.get(name) for name in batches.PER_EXAMPLE], batch)


def _of_batches(data: Any) -> tuple[Any, ...]:
    """Return the specs of a batch, from a dataset's element spec or from the first batch."""
    if batches.is_dataset(data):
        element, size = data.element_spec, batches.dataset_batch(data)
        if size is not None and all(_is_known(leaf) for leaf in nests.leaves(element)):
            return _as_tuple(nests.mapped(lambda leaf: _spec(leaf, size), element))
        data = data.take(1)
    try:
        first = data[0] if batches.is_sequence(data) else next(iter(data))
    except (TypeError, StopIteration):
        name = f"{type(data).__module__}.{type(data).__name__}"
        raise refused(f"its data is {name}, which yields no batch", "fit()") from None
    return _as_tuple(nests.mapped(lambda leaf: _spec(leaf, None), first))


def _is_known(leaf: Any) -> bool:
    """Whether a spec has all sizes except the batch's."""
    shape = getattr(leaf, "shape", None)
    return shape is not None and shape.rank is not None and None not in tuple(shape)[1:]


def _as_tuple(element: Any) -> tuple[Any, ...]:
    """Return inputs, targets and weights, if present."""
    return tuple(element) if isinstance(element, tuple) else (element,)


def _specs(parts: list[Any], batch: int | None) -> tuple[Any, ...]:
    """Return the specs of arrays with ``batch`` examples; trailing parts may be missing."""
    while len(parts) > 1 and parts[-1] is None:
        parts = parts[:-1]
    return tuple(
        nests.mapped(lambda leaf: _spec(leaf, batch, is_cast=True), part) for part in parts
    )


def _spec(leaf: Any, batch: int | None, *, is_cast: bool = False) -> Spec:
    """Return the shape and type of an array or spec; ``fit`` casts float arrays to Keras's type."""
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        import numpy as np

        leaf = np.asarray(leaf)
    shape, name = tuple(leaf.shape), getattr(leaf.dtype, "name", str(leaf.dtype))
    if is_cast and "float" in name:
        name = "float32"
    return Spec(shape if batch is None or not shape else (batch, *shape[1:]), name)


def of_loop(model: Any, optimizer: Any, loss: Any, data: Any, place: str) -> Training:
    """Return what a script's own loop trains by calling the model and applying the optimizer.

    Without a loss (None), the targets in ``data`` look like the outputs.
    """
    family_on_any_backend(model)
    found = _of_model(model, data, f"the loop at {place}")
    note = (
        "the loop runs operation by operation, but is counted as if in a tf.function: "
        "gpuconf rehearse measures it"
    )
    notes = (*found.notes, note)
    if loss is None:
        notes += ("its loss is a function, which is not detected: mean squared error is assumed",)
    loss = loss or _ASSUMED_LOSS
    return found._replace(optimizer=optimizer, loss=loss, jit=False, notes=notes)


def refused(why: str, where: str) -> UsageError:
    """Return the error for a training run that cannot be estimated."""
    return UsageError(
        f"training with {where} cannot be estimated: {why}",
        hint="run a few steps on a simulated GPU: gpuconf rehearse --card 8GiB -- python …",
    )


OnTraining = Callable[[Training], None]
