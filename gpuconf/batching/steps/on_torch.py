"""Keras 3 steps on PyTorch: eager ones, which change the model's variables in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from gpuconf.batching.steps.forward import (
    Computed,
    Gradients,
    computed,
    evaluated_part,
    logged,
)
from gpuconf.batching.steps.part_losses import saying_why
from gpuconf.batching.steps.state import UndoableState, learnt_state
from gpuconf.batching.steps.update import GuardedUpdate
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_on_any_backend
from gpuconf.support.keras_api.stepping import Step, calling
from gpuconf.support.keras_api.variables import changed_by_calls


class TorchEngine:
    """See `engines.Engine`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._convert = family_on_any_backend(model).keras.ops.convert_to_tensor
        self.state = UndoableState(model, lambda: _Reader(changed_by_calls(model), model))
        self.gradients = TorchGradients(model, self.tensors)

    def begin(self, kind: str, data: Any) -> None:
        """Call the model with one sample for ``predict``; Keras's other loops build the model."""
        if kind == "predict" and not self._model.built:
            self.predict(nests.part(data, 0, 1))

    def calling(self, **steps: Step) -> AbstractContextManager[None]:
        """Keras's loops pass a list of one batch: ``steps_per_execution`` is 1 here."""
        return calling(self._model, **{kind: _of_first(step) for kind, step in steps.items()})

    def batch(self, data: Any) -> Any:
        """Return PyTorch tensors unchanged, everything else as arrays on the host."""
        return nests.mapped(lambda leaf: leaf if _is_tensor(leaf) else nests.on_host(leaf), data)

    def tensors(self, data: Any) -> Any:
        """Put a part on the device, as Keras's loader does with batches."""
        return nests.mapped(self._convert, data)

    def scope(self) -> AbstractContextManager[Any]:
        """Within the context, values are read and written without tracking gradients."""
        import torch

        found: AbstractContextManager[Any] = torch.no_grad()
        return found

    def own_train(self, data: Any) -> Any:
        """Run the model's own ``train_step`` on the whole batch."""
        return self._model.train_step(self.tensors(data))

    def test(self, data: Any) -> Any:
        """Run Keras's ``test_step``, or the model's own."""
        with self.scope():
            return self._model.test_step(self.tensors(data))

    def test_part(self, data: Any, share: float) -> tuple[Any, Any]:
        """Like `test`, for a part; also return the weight of its loss."""
        with self.scope(), saying_why():
            return evaluated_part(self._model, self.tensors(data), share)

    def predict(self, data: Any) -> Any:
        """Run Keras's ``predict_step``, or the model's own."""
        if self._model.training:
            self._model.eval()  # as Keras's loop does before its first batch
        with self.scope():
            return self._model.predict_step(self.tensors(data))

    @cached_property
    def _update(self) -> GuardedUpdate:
        reader = _Reader(learnt_state(self._model))
        return GuardedUpdate(reader, self._apply, framework="torch")

    def update(self, gradients: Gradients) -> None:
        """Run the optimizer's ``apply``, guarded: it writes one weight after another."""
        with self.scope():
            self._update(gradients)

    def _apply(self, values: list[Any], _: Any) -> None:
        variables = self._model.trainable_variables
        if variables and self._model.optimizer is not None:
            self._model.optimizer.apply(values, variables)

    def end(self) -> None:
        """Free the gradient sums."""
        self.gradients.free()


class TorchGradients:
    """Gradients of a model's loss, summed in float32 at least; see `engines.GradientSums`."""

    def __init__(self, model: Any, tensors: Callable[[Any], Any]) -> None:
        self._model = model
        self._tensors = tensors
        self._sums: list[Any] = []
        self._weight: Any = 0.0

    def of_whole(self, data: Any) -> Gradients:
        """The gradients of a batch that is computed at once."""
        values, found = self._computed(data, None)
        return Gradients(values, logs=self._logged(found))

    def begin(self) -> None:
        """Reset the sums, which do not exist until the first part."""
        self.free()

    def add(self, data: Any, share: float) -> tuple[Any, Any]:
        """Add a part's gradients; return the logs and the weight of the part's loss."""
        with saying_why():
            values, found = self._computed(data, share)
        values = [None if value is None else _wide(value) * found.weight for value in values]
        if not self._sums:
            self._sums = values
        else:
            for number, value in enumerate(values):
                self._sums[number] = _sum(self._sums[number], value)
        self._weight = self._weight + found.weight
        return self._logged(found), found.weight

    def summed(self, logs: Any, *, is_sum: bool) -> Gradients:
        """The gradients of all parts since `begin`."""
        wanted = [variable.value.dtype for variable in self._model.trainable_variables]
        divisor = None if is_sum else self._weight
        values = [
            None if value is None else _divided(value, divisor).to(dtype)
            for value, dtype in zip(self._sums, wanted, strict=True)
        ]
        self.free()
        return Gradients(values, logs=logs)

    def free(self) -> None:
        """Free the memory used by the sums."""
        self._sums, self._weight = [], 0.0

    def _computed(self, data: Any, share: float | None) -> tuple[list[Any], Computed]:
        import torch

        model = self._model
        values = [variable.value for variable in model.trainable_variables]
        with torch.enable_grad():
            found = computed(model, self._tensors(data), share, training=True)
            loss = found.loss
            if model.optimizer is not None:
                loss = model.optimizer.scale_loss(loss)
            gradients = torch.autograd.grad(loss, values, allow_unused=True) if values else ()
        return list(gradients), found

    def _logged(self, found: Computed) -> Any:
        import torch

        with torch.no_grad():
            return logged(self._model, found)


class _Reader:
    """Reads these variables, and the buffers of the model's native PyTorch modules."""

    def __init__(self, variables: Sequence[Any], model: Any = None) -> None:
        self.variables = list(variables)
        buffers = () if model is None else model.buffers()
        self._tensors = [*(each.value for each in self.variables), *buffers]

    def read(self) -> list[Any]:
        """Copies of the values: PyTorch writes in place."""
        return [tensor.detach().clone() for tensor in self._tensors]

    def on_host(self) -> list[Any]:
        """Copies in host RAM."""
        return [tensor.detach().cpu().clone() for tensor in self._tensors]

    def write(self, values: Sequence[Any]) -> None:
        """Write these values in place."""
        import torch

        with torch.no_grad():
            for tensor, value in zip(self._tensors, values, strict=True):
                tensor.copy_(value)


def _of_first(step: Step) -> Callable[[Any], Any]:
    return lambda data: step(data[0])


def _is_tensor(leaf: Any) -> bool:
    import torch

    return isinstance(leaf, torch.Tensor)


def _wide(value: Any) -> Any:
    """In float32 or wider: a sum over hundreds of samples overflows float16."""
    return value.float() if value.element_size() < 4 else value


def _sum(total: Any, value: Any) -> Any:
    if total is None or value is None:
        return value if total is None else total
    return total.add_(value)


def _divided(value: Any, divisor: Any) -> Any:
    """0 if all weights in the batch are 0."""
    if value is None or divisor is None:
        return value
    number = float(divisor)
    return value / number if number else value * 0.0
