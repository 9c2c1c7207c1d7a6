"""What a Keras backend implements for a step, and which engine serves a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gpuconf.batching.parts import Undoable
from gpuconf.batching.steps.forward import Gradients
from gpuconf.errors import BackendError
from gpuconf.support.keras_api.families import family_on_any_backend


class GradientSums(Protocol):
    """Gradients of a batch, computed at once or accumulated over its parts."""

    def of_whole(self, data: Any) -> Gradients:
        """The gradients of a batch that is computed at once."""

    def begin(self) -> None:
        """Reset the sums to zero."""

    def add(self, data: Any, share: float) -> tuple[Any, Any]:
        """Add a part's gradients; return the logs and the weight of the part's loss."""

    def summed(self, logs: Any, *, is_sum: bool) -> Gradients:
        """The gradients of all parts since `begin`."""

    def free(self) -> None:
        """Free the memory used by the sums."""


class Engine(Protocol):
    """The steps of one model on its backend, during one of our calls."""

    @property
    def state(self) -> Undoable:
        """The state that a forward pass changes: metrics, seeds, moving statistics."""

    @property
    def gradients(self) -> GradientSums:
        """The gradients of the model's loss."""

    def own_train(self, data: Any) -> Any:
        """Return the logs of the model's own ``train_step``."""

    def begin(self, kind: str, data: Any) -> None:
        """Create all variables that this kind of step (train, test, predict) needs for a batch."""

    def calling(self, **steps: Callable[[Any], Any]) -> AbstractContextManager[None]:
        """Within the context, Keras's loops call these steps (``train=``, ``test=``) per batch."""

    def batch(self, data: Any) -> Any:
        """Convert a batch of a user's dataset to the form that this backend's steps expect."""

    def scope(self) -> AbstractContextManager[Any]:
        """Within the context, the model's variables can be read and written."""

    def test(self, data: Any) -> Any:
        """Return the logs after Keras's ``test_step``, or the model's own."""

    def test_part(self, data: Any, share: float) -> tuple[Any, Any]:
        """Like `test`, for a part with this share of the samples; also return its loss's weight."""

    def predict(self, data: Any) -> Any:
        """Return the outputs of ``predict_step``."""

    def update(self, gradients: Gradients) -> None:
        """Run the optimizer's step completely, or undo it and raise the error."""

    def end(self) -> None:
        """Release what only this call needed; Keras's own loops need no cleanup."""


def engine_of(model: Any) -> Engine:
    """Return the engine for the model's backend; raises BackendError if there is none."""
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
        f"Keras uses the {backend} backend here, but gpuconf cannot split its batches",
        hint="export KERAS_BACKEND=tensorflow, or torch, or jax",
    )
