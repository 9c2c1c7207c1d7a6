"""What a backend of Keras does for a step, and which one does it for a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gpuconf.batching.parts import Undoable
from gpuconf.batching.steps.forward import Gradients
from gpuconf.errors import BackendError
from gpuconf.keras_api.families import family_on_any_backend


class GradientSums(Protocol):
    """Gradients of a batch: of the whole at once, or added up over its parts."""

    def of_whole(self, data: Any) -> Gradients:
        """The gradients of a batch that is taken at once."""

    def begin(self) -> None:
        """Sums begin at zero."""

    def add(self, data: Any, share: float) -> tuple[Any, Any]:
        """Add a part's gradients; gives the logs, and how much the part's loss counts."""

    def summed(self, logs: Any, *, is_sum: bool) -> Gradients:
        """The gradients of all the parts since `begin`."""

    def free(self) -> None:
        """Give the sums' memory back."""


class Engine(Protocol):
    """The steps of one model on its backend, for the length of one call of ours."""

    @property
    def state(self) -> Undoable:
        """What computing forwards changes: metrics, seeds, moving statistics."""

    @property
    def gradients(self) -> GradientSums:
        """Of the model's loss."""

    @property
    def own_train(self) -> Callable[[Any], Any] | None:
        """The model's own ``train_step``; None where Keras's loop calls it without our help."""

    def begin(self, kind: str, data: Any) -> None:
        """Make all variables that steps of this kind (train, test, predict) need, by a batch."""

    def calling(self, **steps: Callable[[Any], Any] | None) -> AbstractContextManager[None]:
        """Inside, Keras's loops call these (``train=``, ``test=``) with each batch."""

    def batch(self, data: Any) -> Any:
        """A batch of somebody's dataset, as this backend's steps take it."""

    def scope(self) -> AbstractContextManager[Any]:
        """Inside, the model's variables can be read and written."""

    def test(self, data: Any) -> Any:
        """The logs after Keras's ``test_step``, or the model's own."""

    def test_part(self, data: Any, share: float) -> tuple[Any, Any]:
        """The same of a part with this share of the samples, and how much its loss counts."""

    def predict(self, data: Any) -> Any:
        """The outputs of ``predict_step``."""

    def update(self, gradients: Gradients) -> None:
        """The optimizer's step: all of it, or none and the error raised."""

    def end(self) -> None:
        """Give back what only this call needed; after Keras's own loops there is nothing to do."""


def engine_of(model: Any) -> Engine:
    """The engine of this model's backend; raises BackendError for one that has none."""
    backend = family_on_any_backend(model).backend
    if backend == "tensorflow":
        from gpuconf.batching.steps.on_tensorflow import TensorFlowEngine

        return TensorFlowEngine(model)
    if backend == "torch":
        from gpuconf.batching.steps.on_torch import TorchEngine

        return TorchEngine(model)
    if backend == "jax":
        from gpuconf.batching.steps.on_jax import JaxEngine

        return JaxEngine(model)
    raise BackendError(
        f"Keras computes with {backend} here, whose batches gpuconf cannot take in parts",
        hint="export KERAS_BACKEND=tensorflow, or torch, or jax",
    )
