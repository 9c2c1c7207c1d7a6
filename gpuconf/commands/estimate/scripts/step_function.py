"""A script's own training step: a ``tf.function`` that applies an optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from gpuconf.commands.estimate.keras_models.data import Spec, shown
from gpuconf.commands.estimate.keras_models.layer_calls import LayerCalls, variables_used
from gpuconf.commands.estimate.keras_models.outputs import in_short
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.scripts.training import Training
from gpuconf.commands.estimate.step import Step, TraceSetting
from gpuconf.commands.estimate.tensorflow.tracing import step_of
from gpuconf.errors import UsageError
from gpuconf.support.keras_api.families import loaded_family
from gpuconf.support.keras_api.graphs import as_on_a_gpu
from gpuconf.support.keras_api.training import is_jit_function
from gpuconf.support.keras_api.variables import optimizer_variables

_WITHOUT_DATA = (
    "it is called without data, so batch 1 is one call, whatever batch it uses itself; "
    "`gpuconf rehearse` also runs the script's other steps"
)


@dataclass(frozen=True)
class StepFunction:
    """The function, the arguments of its call, and the optimizers that its trace applied.

    It is retraced for each batch size.  Tensor arguments whose first dimension is the batch are
    resized.
    """

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    optimizers: tuple[Any, ...]
    trained: tuple[Any, ...]
    runner: StepRunner | None = None
    wants_compiling: bool = False

    def training(self, place: str) -> Training:
        """Return what to estimate, with a note on where it was found."""
        tensors = [each for each in self._leaves() if _is_tensor(each)]
        specs = [Spec(tuple(each.shape), each.dtype.name) for each in tensors]
        name = getattr(self.function.python_function, "__name__", "the step")
        what = f"batch {self.batch_size} of {shown(specs)}" if specs else _WITHOUT_DATA
        return Training(
            self, self.batch_size, notes=(f"from {name}(), a tf.function, at {place}: {what}",)
        )

    @property
    def is_compiled(self) -> bool:
        """Whether the script compiles the step with XLA."""
        return is_jit_function(self.function)

    @property
    def kind(self) -> str:
        """The kind of step that is traced."""
        return "training"

    @cached_property
    def batch_size(self) -> int:
        """The first dimension of the first tensor argument; 1 if there is none."""
        for leaf in self._leaves():
            if _is_tensor(leaf):
                return int(leaf.shape[0])
        return 1

    @property
    def is_of_one_batch_size(self) -> bool:
        """Whether the step can be traced at only one batch size."""
        return not any(_is_tensor(leaf) for leaf in self._leaves())

    def trace(self, batch_size: int) -> Step:
        """Trace a step at this batch size."""
        runner = self.runner
        assert runner is not None, "the estimate has given it one"
        calls = LayerCalls(None, loaded_family())
        import tensorflow as tf

        with as_on_a_gpu(), calls.noted(tf.compat.v1.get_default_graph):
            try:
                graph = self._concrete(batch_size).graph
            except Exception as error:  # any kind, from the script
                raise UsageError(
                    f"the step cannot be traced at batch size {batch_size}: {in_short(error)}",
                    hint="leave --batch-size out to use the script's batch size",
                ) from error
        known = variables_used(
            calls,
            self.trained,
            [each for one in self.optimizers for each in optimizer_variables(one)],
        )
        walked = partial(step_of, graph, calls, known, batch_size, runner)
        step = runner.step(
            lambda is_compiled: walked(is_compiled=is_compiled), jit=self.wants_compiling
        )
        return step._replace(setting=self._setting(is_compiled=step.is_compiled))

    def _concrete(self, batch_size: int) -> Any:
        """Retrace the function, without the script's own input_signature."""
        import tensorflow as tf

        def resized(leaf: Any) -> Any:
            if not _is_tensor(leaf):
                return leaf
            shape = tuple(leaf.shape)
            first = batch_size if shape[0] == self.batch_size else shape[0]
            return tf.TensorSpec((first, *shape[1:]), leaf.dtype)

        arguments, options = tf.nest.map_structure(resized, (self.arguments, self.options))
        function = tf.function(self.function.python_function)
        return function.get_concrete_function(*arguments, **options)

    def _leaves(self) -> list[Any]:
        import tensorflow as tf

        return list(tf.nest.flatten((self.arguments, self.options)))

    def _setting(self, *, is_compiled: bool) -> TraceSetting:
        import tensorflow as tf

        family = loaded_family()
        names = [type(getattr(each, "inner_optimizer", each)).__name__ for each in self.optimizers]
        policy = (
            family.keras.mixed_precision.global_policy()
            if not family.is_keras_3
            else (family.keras.config.dtype_policy())
        )
        return TraceSetting(
            training=True,
            jit=is_compiled,
            precision=policy.name,
            optimizer=" and ".join(dict.fromkeys(names)),
            loss=None,
            backend="tensorflow",
            framework=f"tensorflow {tf.__version__}, {family.name} {family.keras.__version__}",
        )


def _is_tensor(leaf: Any) -> bool:
    """Whether a leaf may contain a batch: tensors and arrays may, but not variables or scalars."""
    shape = getattr(leaf, "shape", None)
    return shape is not None and len(shape) > 0 and not hasattr(leaf, "assign")
