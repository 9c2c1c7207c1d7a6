"""What is estimated: a model with its setting, and how to trace it at any batch size.

Which framework traces it is decided here, by Keras's backend.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpuconf.errors import BackendError, MissingDependencyError, UsageError
from gpuconf.footprint.jax import tracing as jax_tracing
from gpuconf.footprint.keras_models.data import (
    Batch,
    given_batch,
    inputs_of,
    is_of_one_batch_size,
    targets_for,
)
from gpuconf.footprint.keras_models.outputs import build, outputs_of
from gpuconf.footprint.keras_models.preparing import EstimateChoice, prepared
from gpuconf.footprint.step import Step, TraceSetting, with_workspaces_up_to
from gpuconf.footprint.tensorflow import tracing as tensorflow_tracing
from gpuconf.footprint.xla.compiler import Compiler
from gpuconf.keras_api.families import KerasFamily, has_own_step

_TRACERS = {"tensorflow": tensorflow_tracing.trace, "jax": jax_tracing.trace}


def check_backend(backend: str, command: str = "") -> None:
    """Raise BackendError for a backend of Keras whose steps are not traced.

    ``command`` is what was run, for the hint.
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
    """A Keras model as it is to be estimated.

    ``input_shape``, ``data`` and the limit are what :func:`gpuconf.estimate` was given.  With
    ``compiler`` a step that Keras would hand to XLA is compiled by it.
    """

    model: Any
    family: KerasFamily
    choice: EstimateChoice
    input_shape: Any = None
    data: Any = None
    workspace_limit_bytes: int | None = None
    compiler: Compiler | None = None

    def trace(self, batch_size: int) -> Step:
        """Trace a step at this batch size; the model is as before afterwards."""
        batch = self.batch(batch_size)
        self._build(batch)
        with prepared(self.model, self.family, self.choice) as setting:
            step = self._compiled(batch, batch_size) if self._is_for_xla(setting) else None
            is_compiled = step is not None or self.family.backend == "jax"
            if step is None:
                step = self._traced(batch, batch_size)
        notes = (*setting.notes, *step.notes)
        step = step._replace(setting=setting._replace(notes=(), jit=is_compiled), notes=notes)
        return with_workspaces_up_to(step, self.workspace_limit_bytes)

    def _is_for_xla(self, setting: TraceSetting) -> bool:
        return setting.jit and self.family.backend == "tensorflow" and self.compiler is not None

    def _compiled(self, batch: Batch, batch_size: int) -> Step | None:
        """The step as XLA compiles it; None where it cannot, and nobody insists."""
        try:
            return self._traced(batch, batch_size, self.compiler)
        except (BackendError, MissingDependencyError) as error:
            if self.choice.jit:
                raise
            assert self.compiler is not None
            self.compiler.failed = error
            return None

    @property
    def _has_own_step(self) -> bool:
        return self.choice.training and has_own_step(self.model, "train_step")

    def _build(self, batch: Batch) -> None:
        try:
            build(self.model, self.family, batch.inputs)
        except UsageError:
            if not self._has_own_step:
                raise
            # A model of models, such as a GAN, may have no call of its own.

    def _traced(self, batch: Batch, batch_size: int, compiler: Compiler | None = None) -> Step:
        """A step of its own may take no targets: where it fails with some, without."""
        trace = _TRACERS[self.family.backend]
        if compiler is not None:
            trace = partial(tensorflow_tracing.trace, compiler=compiler)
        try:
            return trace(self.model, self.family, batch, batch_size, self.choice)
        except UsageError as error:
            if self.data is not None or batch.targets is None or not self._has_own_step:
                raise
            first = error
        try:
            return trace(self.model, self.family, Batch(batch.inputs), batch_size, self.choice)
        except UsageError:
            raise first from None

    @property
    def kind(self) -> str:
        """Which step is traced, in a word."""
        return "training" if self.choice.training else "predict"

    @property
    def is_of_one_batch_size(self) -> bool:
        """Whether it cannot be traced at another batch size."""
        return is_of_one_batch_size(self.model)

    def batch(self, batch_size: int) -> Batch:
        """The specs of a batch."""
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
        return Batch(inputs, targets_for(outputs, loss, names))

    def changed(self, **changes: Any) -> Subject:
        """The same with another optimizer, precision or the like."""
        return dataclasses.replace(self, choice=self.choice._replace(**changes))
