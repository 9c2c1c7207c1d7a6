"""Trace a Keras model's training or prediction step in TensorFlow, without data or computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuconf.commands.estimate.keras_models.data import Batch, shown
from gpuconf.commands.estimate.keras_models.layer_calls import (
    KnownVariables,
    LayerCalls,
    variables_of,
)
from gpuconf.commands.estimate.keras_models.outputs import in_short
from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice
from gpuconf.commands.estimate.runner.exporting import CapturedVariable
from gpuconf.commands.estimate.runner.measured import measured_step
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.step import (
    GPU,
    OPTIMIZER_STATE,
    OTHER_STATE,
    SIMULATED_CARD,
    Step,
    Variable,
)
from gpuconf.commands.estimate.tensorflow.attribution import LayersByName
from gpuconf.commands.estimate.xla.tracing import compiled_step
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.support.keras_api import graphs, nests
from gpuconf.support.keras_api.families import KerasFamily


def trace(
    model: Any,
    family: KerasFamily,
    batch: Batch,
    batch_size: int,
    choice: EstimateChoice,
    *,
    runner: StepRunner,
    is_compiled: bool,
    arrays: Sequence[Variable] = (),
) -> Step:
    """Trace ``train_step`` or ``predict_step`` on a batch of these specs as a :class:`Step`.

    ``runner`` compiles the step with XLA or runs it; ``arrays`` are also on the GPU. Raises
    UsageError with the model's message if the model rejects the batch, and passes on the runner's
    errors.
    """
    runner.start(is_compiled=is_compiled)
    calls = LayerCalls(model, family)
    graph = _traced(model, batch, calls, training=choice.training, is_compiled=is_compiled)
    known = variables_of(model, calls.by_variable(), training=choice.training)
    # Labels that a custom step does not read are probably not passed to fit() either.
    counts_unread = not batch.is_assumed
    return step_of(
        *(graph, calls, known, batch_size, runner),
        is_compiled=is_compiled,
        counts_unread=counts_unread,
        arrays=arrays,
    )


def step_of(
    graph: Any,
    calls: LayerCalls,
    known: KnownVariables,
    batch_size: int,
    runner: StepRunner,
    *,
    is_compiled: bool,
    counts_unread: bool = True,
    arrays: Sequence[Variable] = (),
) -> Step:
    """The step of a traced graph; ``calls`` were recorded during the trace.

    ``counts_unread``: in a compiled step, also count inputs that no operation reads.
    """
    captured = [*_captured(graph, known), *(CapturedVariable(each, None) for each in arrays)]
    names = [operation.name for operation in graph.get_operations()]
    layers = LayersByName(names, calls.spans)
    kinds = {path: type(layer).__name__ for path, layer in calls.layers.items()}
    given = (graph, captured, layers, batch_size, runner)
    step = (
        compiled_step(*given, counts_unread=counts_unread) if is_compiled else measured_step(*given)
    )
    tier = GPU if runner.is_here else SIMULATED_CARD
    return step._replace(layers=kinds, is_compiled=is_compiled, tier=tier)


def _captured(graph: Any, known: KnownVariables) -> list[CapturedVariable]:
    """All variables of the step in the order in which they are created, with their handles.

    The state of an optimizer that a custom step does not use is left out.
    """
    handles: dict[int, Any] = {}
    others = []
    for outside, inside in graph.captures:
        if inside.dtype.name != "resource":
            continue
        variable = known.by_handle.get(id(outside))
        if variable is None:
            size_bytes = graphs.handled_bytes(inside) or 0  # a table has no size
            others.append(CapturedVariable(Variable(inside.name, size_bytes, OTHER_STATE), inside))
        else:
            handles[id(variable)] = inside
    states = [each for each in known.variables if each.kind == OPTIMIZER_STATE]
    uses_state = any(id(each) in handles for each in states)
    found = [
        CapturedVariable(each, handles.get(id(each)))
        for each in known.variables
        if uses_state or each.kind != OPTIMIZER_STATE
    ]
    return [*found, *others]


def _traced(
    model: Any, batch: Batch, calls: LayerCalls, *, training: bool, is_compiled: bool
) -> Any:
    import tensorflow as tf

    def step(data: Any) -> Any:
        return model.train_step(data) if training else model.predict_step((data,))

    specs = batch.for_training() if training else batch.inputs
    data = nests.mapped(lambda spec: tf.TensorSpec(spec.shape, spec.dtype), specs)
    with graphs.as_on_a_gpu(), calls.noted(_current_graph):
        try:
            return graphs.traced("step", step, data, is_compiled=is_compiled)
        except GpuconfError:
            raise
        except Exception as error:  # the model may raise anything
            raise UsageError(
                f"{type(model).__name__} cannot be traced with {shown(specs)}: {in_short(error)}",
                hint="call it once on such a batch to see where; if the batch is wrong, pass "
                "data=(inputs, targets) or input_shape=",
            ) from error


def _current_graph() -> Any:
    import tensorflow as tf

    return tf.compat.v1.get_default_graph()
