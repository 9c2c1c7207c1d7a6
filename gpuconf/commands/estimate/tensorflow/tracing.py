"""Trace a Keras model's training or prediction step with TensorFlow, without data or computing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from gpuconf.commands.estimate.keras_models.data import Batch, shown
from gpuconf.commands.estimate.keras_models.layer_calls import (
    KnownVariables,
    LayerCalls,
    variables_of,
)
from gpuconf.commands.estimate.keras_models.outputs import in_short
from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice
from gpuconf.commands.estimate.step import (
    CONSTANT,
    DATA,
    OPTIMIZER_STATE,
    OTHER_STATE,
    Step,
    Variable,
)
from gpuconf.commands.estimate.tensorflow.attribution import (
    LayersByName,
    named_pieces,
    operations_of,
)
from gpuconf.commands.estimate.tensorflow.first_trace import FirstTrace
from gpuconf.commands.estimate.tensorflow.memory import Handle, Value, size_of
from gpuconf.commands.estimate.tensorflow.paired_graphs import DoubtError
from gpuconf.commands.estimate.tensorflow.walk import Walk
from gpuconf.commands.estimate.xla.compiler import Compiler
from gpuconf.commands.estimate.xla.tracing import compiled_step
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.support.keras_api import graphs, nests
from gpuconf.support.keras_api.families import KerasFamily
from gpuconf.support.keras_api.updates import updates_noted, without_updates

_SPARE_SUMS = 2


def trace(
    model: Any,
    family: KerasFamily,
    batch: Batch,
    batch_size: int,
    choice: EstimateChoice,
    *,
    compiler: Compiler | None = None,
    first: FirstTrace | None = None,
) -> Step:
    """Trace ``train_step`` or ``predict_step`` on a batch of these specs as a :class:`Step`.

    With ``compiler``, XLA compiles the step.  After a ``first`` trace, only part of the step is
    traced if that suffices.  Raises UsageError with the model's message if the model refuses the
    batch, and any error of :meth:`Compiler.compile`.
    """
    calls = LayerCalls(model, family)
    training, optimizer = choice.training, model.optimizer if choice.training else None
    is_compiled = compiler is not None
    if compiler is not None:
        compiler.start()
    traced = partial(_traced, model, batch, training=training, is_compiled=is_compiled)
    if first is not None and first.wants_part and not is_compiled:
        with without_updates(optimizer):
            first.pair_with(traced(calls), batch_size, is_whole=False)
        if (step := resized_step(first, batch_size)) is not None:
            return step
        calls, optimizer = LayerCalls(model, family), None  # of this model the whole is wanted
    with updates_noted(optimizer, _current_graph) as updates:
        graph = traced(calls)
    known = variables_of(model, calls.by_variable(), training=training)
    # Labels that a custom step does not read are probably not passed to fit() either.
    counts_unread = not batch.is_assumed
    step = step_of(graph, calls, known, batch_size, compiler, counts_unread=counts_unread)
    if is_compiled:
        return step
    if first is not None:
        first.pair_with(graph, batch_size)
    origin = FirstTrace(graph, calls, known, batch_size, optimizer=optimizer, updates=updates)
    return step._replace(origin=origin)


def resized_step(first: FirstTrace, batch_size: int) -> Step | None:
    """The step at another batch size, from earlier traces; None if it needs its own trace."""
    graph = first.graph_at(batch_size)
    if graph is None:
        return None
    try:
        return step_of(graph, first.calls, first.known, batch_size)
    except DoubtError:  # about a constant
        return None


def step_of(
    graph: Any,
    calls: LayerCalls,
    known: KnownVariables,
    batch_size: int,
    compiler: Compiler | None = None,
    *,
    counts_unread: bool = True,
) -> Step:
    """The step of a traced graph; ``calls`` were recorded during the trace.

    ``counts_unread``: with ``compiler``, also count inputs that no operation reads.
    """
    if compiler is not None:
        given = (graph, calls, known, batch_size, compiler)
        return _compiled(*given, counts_unread=counts_unread)
    walk, captured = _walked(graph, known)
    operations = operations_of(graph, walk.places, calls.spans)
    variables = (*_in_use(graph, known), *captured)
    pieces = named_pieces(walk.ledger.pieces(variables), operations)
    kinds = _kinds(calls)
    # If memory is short, grappler adds such gradients one by one to zeros (SchedulingPass in
    # memory_optimizer.cc).  The zeros remain as a constant, and the sum needs memory in addition.
    spare = _SPARE_SUMS * walk.largest_sum_bytes
    late = walk.ledger.late(variables)
    step = Step(batch_size, variables, operations, pieces, kinds, _notes(walk), late=late)
    return step._replace(spare_bytes=spare)


def _compiled(
    graph: Any,
    calls: LayerCalls,
    known: KnownVariables,
    batch_size: int,
    compiler: Compiler,
    *,
    counts_unread: bool,
) -> Step:
    captured: list[Variable] = []
    for outside, inside in graph.captures:
        if inside.dtype.name == "resource":
            _handle(outside, inside, known, captured)
    names = [operation.name for operation in graph.get_operations()]
    layers = LayersByName(names, calls.spans)
    variables = (*_in_use(graph, known), *captured)
    step = compiled_step(
        *(graph, variables, layers, batch_size, compiler), counts_unread=counts_unread
    )
    state = (number for number, each in enumerate(variables) if each.kind == OPTIMIZER_STATE)
    late = dict.fromkeys(state, 0)
    return step._replace(layers=_kinds(calls), late=late, is_compiled=True)


def _kinds(calls: LayerCalls) -> dict[str, str]:
    return {path: type(layer).__name__ for path, layer in calls.layers.items()}


def _in_use(graph: Any, known: KnownVariables) -> Iterable[Variable]:
    """All variables, except the state of an optimizer that a custom step does not use."""
    found = {id(known.by_handle.get(id(outside))) for outside, _ in graph.captures}
    states = [each for each in known.variables if each.kind == OPTIMIZER_STATE]
    if any(id(each) in found for each in states):
        return known.variables
    return [each for each in known.variables if each.kind != OPTIMIZER_STATE]


def _walked(graph: Any, known: KnownVariables) -> tuple[Walk, list[Variable]]:
    """The walk of any step after the first, and the variables that do not belong to the model."""
    sparse: set[int] = set()
    while True:
        walk, captured = Walk(), list[Variable]()
        values = _arguments(graph, walk, known, captured)
        handles = [value for value in values.values() if isinstance(value, Handle)]
        for number in sparse:
            handles[number].is_sparse = True
        results = walk.graph(graph, values)
        walk.keep(results.values())
        walk.finish()
        # A variable that one step updates by rows is copied when the next step reads it.
        found = {number for number, handle in enumerate(handles) if handle.is_sparse}
        if found == sparse:
            return walk, captured
        sparse = found


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
                f"{type(model).__name__} cannot be traced on {shown(specs)}: {in_short(error)}",
                hint="call it once on such a batch to see where; if the batch is wrong, give "
                "data=(inputs, targets) or input_shape=",
            ) from error


def _current_graph() -> Any:
    import tensorflow as tf

    return tf.compat.v1.get_default_graph()


def _arguments(
    graph: Any, walk: Walk, known: KnownVariables, captured: list[Variable]
) -> dict[int, Value]:
    """The graph's inputs: variables, captured constants, and the batch."""
    import tensorflow as tf

    values: dict[int, Value] = {}
    for outside, inside in graph.captures:
        if outside.dtype == tf.resource:
            values[id(inside)] = _handle(outside, inside, known, captured)
        else:
            values[id(inside)] = walk.kept(size_of(inside) or 0, CONSTANT)
    read = graphs.tensors_read(graph)
    for tensor in graph.inputs:
        if id(tensor) not in values and id(tensor) in read:  # unread tensors stay on the host
            values[id(tensor)] = walk.kept(size_of(tensor) or 0, DATA)
    return values


def _handle(
    outside: Any, inside: Any, known: KnownVariables, captured: list[Variable]
) -> Handle | None:
    variable = known.by_handle.get(id(outside))
    if variable is None:
        size = graphs.handled_bytes(getattr(inside, "traced", inside))
        if size is None:  # for example a lookup table
            return None
        variable = Variable(inside.name, size, OTHER_STATE)
        captured.append(variable)
    return Handle(variable)


def _notes(walk: Walk) -> tuple[str, ...]:
    notes = []
    if walk.unknown:
        notes.append(
            f"the size of {len(walk.unknown)} results depends on the data, such as that of "
            f"{walk.unknown[0]}: taken to be as large as the operation's input"
        )
    if walk.endless:
        notes.append(
            f"how often {len(walk.endless)} loops turn is not known, such as {walk.endless[0]}: "
            "one turn is counted"
        )
    return tuple(notes)
