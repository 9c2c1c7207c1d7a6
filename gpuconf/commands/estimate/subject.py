"""What is estimated: a model with its options, and how to trace it at any batch size.

Keras's backend determines which framework traces it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
from gpuconf.commands.estimate.step import (
    ARRAYS,
    Step,
    TraceSetting,
    Variable,
    with_workspaces_up_to,
)
from gpuconf.commands.estimate.tensorflow import tracing as tensorflow_tracing
from gpuconf.commands.estimate.tensorflow.first_trace import FirstTrace
from gpuconf.commands.estimate.xla.compiler import Compiler
from gpuconf.errors import BackendError, UsageError
from gpuconf.support.keras_api.families import KerasFamily, has_own_step

_TRACERS = {"tensorflow": tensorflow_tracing.trace, "jax": jax_tracing.trace}


def check_backend(backend: str, command: str = "") -> None:
    """Raise BackendError for a Keras backend that cannot be traced.

    ``command`` is the command that was run, for the hint.
    """
    if backend not in _TRACERS:
        raise BackendError(
            f"Keras computes with {backend} here, and only TensorFlow's and JAX's memory can be "
            "estimated",
            hint=f"KERAS_BACKEND=jax {command}".rstrip()
            + f"; or measure it with {backend}: gpuconf.callbacks.MemoryUsage",
        )


@dataclass(frozen=True)
class Subject:
    """A Keras model with the options of an estimate.

    ``input_shape``, ``data``, ``arrays`` and the limit are those of :func:`gpuconf.estimate`.  With
    ``compiler``, steps that Keras would pass to XLA are compiled by it.
    """

    model: Any
    family: KerasFamily
    choice: EstimateChoice
    input_shape: Any = None
    data: Any = None
    workspace_limit_bytes: int | None = None
    compiler: Compiler | None = None
    arrays: Sequence[int] = ()

    def resized(self, like: Step, batch_size: int) -> Step | None:
        """Return the step ``like`` another at this batch size if no trace is needed, else None."""
        step = tensorflow_tracing.resized_step(like.origin, batch_size)
        if step is None:
            return None
        return self._completed(step._replace(setting=like.setting, notes=like.notes))

    def trace(self, batch_size: int, like: Step | None = None) -> Step:
        """Trace a step at this batch size, and restore the model.

        If ``like`` is given, parts that do not depend on the batch need not be traced again.
        """
        first = None if like is None else like.origin
        batch = self.batch(batch_size)
        self._build(batch)
        built = None if first is None else first.optimizer
        with prepared(self.model, self.family, self.choice, built) as setting:
            compiler = self._compiler_for(setting)
            trace = partial(self._traced, batch, batch_size, first)
            step = trace(None) if compiler is None else compiler.step(trace)
        if compiler is not None and compiler.failed is not None:
            setting = setting._replace(jit=False)
        step = step._replace(
            setting=setting._replace(notes=()), notes=(*setting.notes, *step.notes)
        )
        return self._completed(step)

    def _completed(self, step: Step) -> Step:
        """Return the step with capped workspaces, and the arrays of ``fit`` after the variables."""
        arrays = (Variable("array of fit()", size_bytes, ARRAYS) for size_bytes in self.arrays)
        step = step._replace(variables=(*step.variables, *arrays))
        return with_workspaces_up_to(step, self.workspace_limit_bytes)

    def _compiler_for(self, setting: TraceSetting) -> Compiler | None:
        """Return TensorFlow's compiler; JAX's tracer compiles by itself."""
        return self.compiler if setting.jit and self.family.backend == "tensorflow" else None

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

    def _traced(
        self, batch: Batch, batch_size: int, first: FirstTrace | None, compiler: Compiler | None
    ) -> Step:
        """Trace the step; a custom one that fails with targets is traced again without them."""
        trace = _TRACERS[self.family.backend]
        if self.family.backend == "tensorflow":
            trace = partial(tensorflow_tracing.trace, compiler=compiler, first=first)
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
        """Whether it can only be traced at one batch size."""
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

    def changed(self, **changes: Any) -> Subject:
        """Return a copy with another optimizer, precision or other option."""
        return dataclasses.replace(self, choice=self.choice._replace(**changes))
