"""What is estimated: a model with its options, and how to trace it at any batch size.

Keras's backend determines which framework traces the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpuconf.commands.estimate.jax import tracing as jax_tracing
from gpuconf.commands.estimate.keras_models.data import (
    Batch,
    given_batch,
    inputs_of,
    is_of_one_batch_size,
    targets_for,
)
from gpuconf.commands.estimate.keras_models.outputs import build, outputs_of
from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice, prepared
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.step import ARRAYS, Step, Variable
from gpuconf.commands.estimate.tensorflow import tracing as tensorflow_tracing
from gpuconf.errors import BackendError, UsageError
from gpuconf.support.keras_api.families import KerasFamily, has_own_step

_BACKENDS = ("tensorflow", "jax")


def check_backend(backend: str, command: str = "") -> None:
    """Raise BackendError for a Keras backend that cannot be traced.

    ``command`` is the command that was run, for the hint.
    """
    if backend not in _BACKENDS:
        raise BackendError(
            f"Keras runs on {backend} here, but estimates need Keras on TensorFlow or JAX",
            hint=f"KERAS_BACKEND=jax {command}".rstrip()
            + f"; or measure it with {backend}: gpuconf.callbacks.MemoryUsage",
        )


@dataclass(frozen=True)
class EstimateRequest:
    """A Keras model with the options of an estimate.

    ``input_shape``, ``data`` and ``arrays`` are those of :func:`gpuconf.estimate`. The ``runner``
    compiles the TensorFlow steps that Keras would pass to XLA, and runs the others.
    """

    model: Any
    family: KerasFamily
    choice: EstimateChoice
    runner: StepRunner
    input_shape: Any = None
    data: Any = None
    arrays: Sequence[int] = ()

    def trace(self, batch_size: int) -> Step:
        """Trace a step at this batch size, and restore the model."""
        batch = self.batch(batch_size)
        self._build(batch)
        with prepared(self.model, self.family, self.choice) as setting:
            if self.family.backend == "tensorflow":
                step = self.runner.step(
                    lambda is_compiled: self._traced(batch, batch_size, is_compiled=is_compiled),
                    jit=setting.jit,
                )
                jit = step.is_compiled
            else:
                step, jit = self._traced(batch, batch_size, is_compiled=True), True
        setting, notes = setting._replace(jit=jit, notes=()), setting.notes
        return step._replace(setting=setting, notes=(*notes, *step.notes))

    @property
    def _has_own_step(self) -> bool:
        return self.choice.training and has_own_step(self.model, "train_step")

    def _build(self, batch: Batch) -> None:
        try:
            build(self.model, self.family, batch.inputs)
        except UsageError:
            if not self._has_own_step:
                raise
            # A model of models, such as a GAN, may have no call method.

    def _tracer(self, *, is_compiled: bool) -> Callable[..., Step]:
        if self.family.backend == "jax":
            return partial(jax_tracing.trace, target=self.runner.target)
        return partial(
            tensorflow_tracing.trace,
            runner=self.runner,
            is_compiled=is_compiled,
            arrays=[Variable("array of fit()", size_bytes, ARRAYS) for size_bytes in self.arrays],
        )

    def _traced(self, batch: Batch, batch_size: int, *, is_compiled: bool) -> Step:
        """Trace the step; a custom step that fails with targets is traced again without them."""
        trace = self._tracer(is_compiled=is_compiled)
        try:
            return trace(self.model, self.family, batch, batch_size, self.choice)
        except UsageError as error:
            if self.data is not None or batch.targets is None or not self._has_own_step:
                raise
            refused = error
        try:
            return trace(self.model, self.family, Batch(batch.inputs), batch_size, self.choice)
        except UsageError:
            raise refused from None

    @property
    def kind(self) -> str:
        """The kind of step that is traced."""
        return "training" if self.choice.training else "predict"

    @property
    def is_of_one_batch_size(self) -> bool:
        """Whether the model can be traced at only one batch size."""
        return is_of_one_batch_size(self.model)

    def batch(self, batch_size: int) -> Batch:
        """Return the specs of a batch."""
        if self.data is not None:
            return given_batch(self.data, batch_size)
        inputs = inputs_of(self.model, batch_size, self.input_shape)
        if not self.choice.training:
            return Batch(inputs)
        try:
            outputs = outputs_of(self.model, self.family, inputs)
        except UsageError:
            if self._has_own_step:
                return Batch(inputs)
            raise
        loss = self.choice.loss or getattr(self.model, "loss", None)
        names = getattr(self.model, "output_names", None) or ()
        return Batch(inputs, targets_for(outputs, loss, names), is_assumed=True)

    def changed(self, **changes: Any) -> EstimateRequest:
        """Return a copy with a different optimizer, precision or other option."""
        return dataclasses.replace(self, choice=self.choice._replace(**changes))
