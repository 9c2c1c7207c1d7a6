"""The shapes and types of a batch of model data, as ``fit`` would receive it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests, symbolic

_GIVE_SHAPES = "pass input_shape=(224, 224, 3), or --input-shape 224,224,3"
_USUAL_SIDE, _USUAL_LENGTH = 224, 200


@dataclass(frozen=True)
class Spec:
    """A tensor's shape, including the batch, and its type, such as ``float32``.

    Not a tuple, because functions that map over the leaves of a batch would descend into it.
    """

    shape: tuple[int, ...]
    dtype: str


class Batch(NamedTuple):
    """The inputs and the targets: one :class:`Spec` each, or lists or dicts of them.

    ``is_assumed`` is set if the targets were derived from the outputs, not given.
    """

    inputs: Any
    targets: Any = None
    weights: Any = None
    is_assumed: bool = False

    def for_training(self) -> Any:
        """Return the batch as ``fit`` passes it to ``train_step``: one input is not in a tuple."""
        if self.targets is None:
            return (self.inputs,) if isinstance(self.inputs, list | tuple) else self.inputs
        parts = (self.inputs, self.targets, self.weights)
        return tuple(part for part in parts if part is not None)


def shown(specs: Any) -> str:
    """Return the leaves as text, such as ``float32[32, 224, 224, 3]``."""
    return ", ".join(f"{spec.dtype}{list(spec.shape)}" for spec in nests.leaves(specs))


def given_batch(data: Any, batch_size: int) -> Batch:
    """Return the specs of ``data``: ``(inputs, targets)`` or inputs; arrays, tensors or specs.

    The batch size replaces the first dimension.  float64 arrays become float32, as ``fit`` passes
    them to the model.
    """
    parts = data if isinstance(data, tuple) else (data,)
    if not 1 <= len(parts) <= 3:
        raise UsageError(
            f"data has {len(parts)} parts", hint="pass data=(inputs, targets), as for fit()"
        )

    def spec(leaf: Any) -> Any:
        shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
        if shape is None or dtype is None or len(shape) == 0:
            raise UsageError(
                f"data contains {leaf!r}, which has no batch dimension",
                hint="pass arrays or tf.TensorSpec: data=(np.zeros([1, 28, 28]), np.zeros([1]))",
            )
        name = _dtype_name(dtype)
        if "float" in name and hasattr(leaf, "__array__"):
            name = "float32"
        return Spec((batch_size, *tuple(shape)[1:]), name)

    return Batch(*(nests.mapped(spec, part) for part in parts))


def _dtype_name(dtype: Any) -> str:
    """Return the type's name in Keras; NumPy string arrays have different types."""
    name = dtype if isinstance(dtype, str) else dtype.name
    return "string" if name.startswith(("str", "bytes", "object")) else name


def is_of_one_batch_size(model: Any) -> bool:
    """Whether the model is built for a single batch size."""
    leaves = nests.leaves(symbolic.inputs_of(model))
    return any(_declared_batch(model, leaf) is not None for leaf in leaves)


def _declared_batch(model: Any, leaf: Any) -> int | None:
    """Return the only batch size that the model supports, if any.

    A Sequential without an Input records the batch size of its first call, but also runs with other
    batch sizes.
    """
    is_sequential = any(kind.__name__ == "Sequential" for kind in type(model).__mro__)
    return None if is_sequential else leaf.shape[0]


def inputs_of(model: Any, batch_size: int, input_shape: Any = None) -> Any:
    """Return the specs of the inputs: the model's own, or ``input_shape`` without the batch.

    Raises UsageError if a dimension is unknown.
    """
    inputs = symbolic.inputs_of(model)
    if inputs is not None:
        leaves = nests.leaves(inputs)
        shapes = _shapes_for(leaves, input_shape)
        for leaf in leaves:
            _check_declared(_declared_batch(model, leaf), batch_size)
        specs = [_spec(leaf, shape, batch_size) for leaf, shape in zip(leaves, shapes, strict=True)]
        return nests.refilled(inputs, specs)
    shape = input_shape if input_shape is not None else symbolic.built_shape(model)
    if shape is None:
        raise UsageError(
            f"{type(model).__name__} has never been called, so its input shape is unknown",
            hint=f"{_GIVE_SHAPES}; or data=(inputs, targets)",
        )
    return _specs_of_shapes(shape, batch_size, known_batch=input_shape is None)


def _shapes_for(leaves: Sequence[Any], given: Any) -> list[tuple[int, ...] | None]:
    """Return the given shape for each input, or None to use the model's own."""
    if given is None:
        return [None] * len(leaves)
    names = [str(leaf.name) for leaf in leaves]
    if isinstance(given, dict):
        if set(given) != set(names):
            raise UsageError(
                f"the model's inputs are {', '.join(names)}, but shapes were given for "
                f"{', '.join(map(str, given))}",
                hint=f"input_shape={{{names[0]!r}: (224, 224, 3), ...}}",
            )
        return [tuple(given[name]) for name in names]
    shapes = _list_of_shapes(given)
    if len(shapes) != len(leaves):
        raise UsageError(
            f"the model has {len(leaves)} inputs ({', '.join(names)}), but {len(shapes)} shapes "
            "were given",
            hint="pass one shape per input, in this order",
        )
    return [tuple(shape) for shape in shapes]


def _list_of_shapes(given: Any) -> list[Any]:
    return list(given) if given and not isinstance(given[0], int | type(None)) else [given]


def _check_declared(declared: int | None, batch_size: int) -> None:
    if declared not in (None, batch_size):
        raise UsageError(
            f"the model is built for batch size {declared}, but {batch_size} was requested",
            hint=f"batch_size={declared}, or build it without batch_size in keras.Input",
        )


def _spec(leaf: Any, shape: tuple[int, ...] | None, batch_size: int) -> Any:
    own = tuple(leaf.shape)
    wanted = own[1:] if shape is None else shape
    if shape is not None and not _agree(own[1:], shape):
        raise UsageError(
            f"input {leaf.name!r} expects {_shown(own)}, but {_shown(shape)} was given",
            hint="pass the shape of one sample, without the batch dimension",
        )
    if None in wanted:
        raise UsageError(
            f"input {leaf.name!r} has shape {_shown(own)}, but its size must be known",
            hint=_hint_for(own[1:]),
        )
    return Spec((batch_size, *wanted), _dtype_name(leaf.dtype))


def _hint_for(sample: Sequence[int | None]) -> str:
    """Return an example with numbers for unspecified dimensions: an image's sides, or a length."""
    usual = _USUAL_SIDE if len(sample) > 2 else _USUAL_LENGTH
    sizes = [str(usual if each is None else each) for each in sample]
    python = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    return f"pass it, such as input_shape={python}, or --input-shape {','.join(sizes)}"


def _agree(own: Sequence[int | None], given: Sequence[int | None]) -> bool:
    return len(own) == len(given) and all(
        ours in (None, theirs) for ours, theirs in zip(own, given, strict=True)
    )


def _shown(shape: Sequence[int | None]) -> str:
    return f"({', '.join(str(each) for each in shape)}{',' if len(shape) == 1 else ''})"


def _specs_of_shapes(shape: Any, batch_size: int, *, known_batch: bool) -> Any:
    """Return float32 specs of these shapes, if nothing else is known."""

    def spec(one: Sequence[int | None]) -> Any:
        sample = tuple(one)[1:] if known_batch else tuple(one)
        if None in sample:
            raise UsageError(
                f"the shape {_shown(sample)} has unknown dimensions", hint=_GIVE_SHAPES
            )
        return Spec((batch_size, *(size for size in sample if size is not None)), "float32")

    if isinstance(shape, dict):
        return {name: spec(one) for name, one in shape.items()}
    shapes = _list_of_shapes(shape)
    return spec(shapes[0]) if len(shapes) == 1 else [spec(one) for one in shapes]


def targets_for(outputs: Any, loss: Any, names: Sequence[str] = ()) -> Any:
    """Return the specs of the targets that a loss compares with these outputs.

    ``outputs`` are specs or symbolic tensors for one batch. ``loss`` is what was passed to
    ``compile``: one for all outputs, or a list or dict. ``names`` are the names of the outputs if
    these are a list.
    """
    if isinstance(outputs, dict):
        return {
            name: targets_for(output, loss.get(name) if isinstance(loss, dict) else loss)
            for name, output in outputs.items()
        }
    if isinstance(outputs, list | tuple):
        losses = _losses_for(outputs, loss, names)
        return [targets_for(*pair) for pair in zip(outputs, losses, strict=True)]
    shape = tuple(outputs.shape)
    if _is_sparse(loss):
        return Spec(shape[:-1] if len(shape) > 1 else shape, "int32")
    return Spec(shape, "float32")


def _losses_for(outputs: Sequence[Any], loss: Any, names: Sequence[str]) -> list[Any]:
    if isinstance(loss, dict):
        known = names if len(names) == len(outputs) else list(loss)
        return [loss.get(name) for name in [*known, *outputs][: len(outputs)]]
    if isinstance(loss, list | tuple):
        return list(loss) if len(loss) == len(outputs) else [None] * len(outputs)
    return [loss] * len(outputs)


def _is_sparse(loss: Any) -> bool:
    names = (loss, getattr(loss, "name", ""), getattr(loss, "__name__", ""), type(loss).__name__)
    return any("sparse" in name.lower() for name in names if isinstance(name, str))
