"""TensorFlow graphs: tracing a function without data, and reading the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpuconf.errors import BackendError

_HINT = "pip install 'tensorflow<=2.21'; and please report it"


def traced(name: str, step: Callable[[Any], Any], data: Any, *, is_compiled: bool = False) -> Any:
    """The graph of ``step(data)`` for data with these specs; computes nothing.

    ``is_compiled`` returns the graph that TensorFlow traces with ``jit_compile=True``.  Gradients
    of conditions and loops then use only operations that XLA supports.

    Raises BackendError if this TensorFlow lacks the API, and the errors of the step.
    """
    try:
        from tensorflow.python.framework.func_graph import func_graph_from_py_func
    except ImportError as error:
        why = f"this version of TensorFlow traces graphs in a way unknown to gpuconf: {error}"
        raise BackendError(why, hint=_HINT) from error
    return func_graph_from_py_func(name, _for_xla(step) if is_compiled else step, (data,), {})


def _for_xla(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Run the step in the context that ``tf.function(jit_compile=True)`` enters in its graph."""
    try:
        from tensorflow.python.ops.control_flow_ops import XLAControlFlowContext
    except ImportError:
        return step

    def in_context(data: Any) -> Any:
        context = XLAControlFlowContext()
        context.Enter()
        try:
            return step(data)
        finally:
            context.Exit()

    return in_context


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Let layers that look for a GPU find one while they are traced.

    Keras 3 then uses cuDNN's kernels for recurrent layers instead of a loop.
    """
    import tensorflow as tf

    own = tf.config.list_logical_devices

    def listed(device_type: str | None = None) -> list[Any]:
        found: list[Any] = own(device_type)
        if device_type != "GPU" or found:
            return found
        return [tf.config.LogicalDevice("/device:GPU:0", "GPU")]

    tf.config.list_logical_devices = listed
    try:
        yield
    finally:
        tf.config.list_logical_devices = own


def batch_inputs(graph: Any, *, counts_unread: bool = False) -> list[Any]:
    """The inputs of a traced step that are its batch.

    Inputs that no operation reads and that are not results are left out unless ``counts_unread``.
    """
    read = {id(tensor) for operation in graph.get_operations() for tensor in operation.inputs}
    read.update(map(id, graph.outputs))
    captured = {id(tensor) for _, tensor in graph.captures}
    inputs = [tensor for tensor in graph.inputs if id(tensor) not in captured]
    return inputs if counts_unread else [tensor for tensor in inputs if id(tensor) in read]


def function_graph(graph: Any, name: str) -> Any:
    """The graph of the function that an operation of ``graph`` calls by this name.

    Raises KeyError if neither the graph nor an enclosing one has such a function, and BackendError
    if this TensorFlow lacks the API.
    """
    while graph is not None:
        if not hasattr(graph, "_get_function"):
            raise BackendError(
                "gpuconf does not know how this version of TensorFlow stores functions", hint=_HINT
            )
        function = graph._get_function(name)
        if function is not None:
            return function.graph
        graph = getattr(graph, "outer_graph", None)
    raise KeyError(name)


def define_functions(definition: Any) -> None:
    """Register the functions of a GraphDef, used by conditions and loops, in this process.

    An import registers them only in the graph, where XLA does not look.
    """
    try:
        from tensorflow.python.eager import context
    except ImportError as error:
        why = f"gpuconf does not know how this version of TensorFlow stores functions: {error}"
        raise BackendError(why, hint=_HINT) from error
    for function in definition.library.function:
        context.context().add_function_def(function)


def handled_spec(handle: Any) -> Any:
    """The ``tf.TensorSpec`` of the variable behind a handle in a graph.

    None for tables, for unknown shapes, and for anything but a handle.
    """
    import tensorflow as tf

    try:
        from tensorflow.python.ops.handle_data_util import get_resource_handle_data
    except ImportError:
        return None
    data = get_resource_handle_data(handle) if handle.dtype == tf.resource else None
    if data is None or not data.is_set or not data.shape_and_type:
        return None
    what = data.shape_and_type[0]
    spec = tf.TensorSpec(tf.TensorShape(what.shape), tf.as_dtype(what.dtype))
    return spec if spec.shape.is_fully_defined() else None


def handled_bytes(handle: Any) -> int | None:
    """Bytes of the variable behind a handle in a graph; None for tables and unknown shapes."""
    spec = handled_spec(handle)
    return None if spec is None else int(spec.shape.num_elements() * spec.dtype.size)


def variable_without_memory(**options: Any) -> Any:
    """A ``tf.Variable`` with only a shape and a type; None if this TensorFlow does not offer
    one."""
    import tensorflow as tf

    try:
        from tensorflow.python.ops.resource_variable_ops import UninitializedVariable
    except ImportError:
        return None
    with tf.init_scope():
        return UninitializedVariable(**options)
