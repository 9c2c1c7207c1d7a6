"""A Keras model's step on JAX, compiled by XLA for a GPU without one: what it will allocate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuconf.errors import BackendError, UsageError
from gpuconf.footprint.compile_target import CompileTarget, target_text
from gpuconf.footprint.keras_models.data import Batch, shown
from gpuconf.footprint.keras_models.outputs import in_short
from gpuconf.keras_api import nests
from gpuconf.keras_api.jax_steps import state_and_step

_WITH_CUDA = 'pip install "jax[cuda12]"'
# The plugin looks for the libraries of CUDA, of which compiling needs none.
_WITHOUT_LIBRARIES = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}
_LONGEST_REASON = 200
_CONVOLUTION = "__cudnn$conv"


class CompiledStep(NamedTuple):
    """Bytes as XLA has assigned them: ``temp_bytes`` is one block, taken for the step alone.

    ``output_bytes`` are the results that are not written over the model's own variables.
    """

    temp_bytes: int
    output_bytes: int
    has_convolutions: bool


def compiled_step(
    model: Any, batch: Batch, *, training: bool, target: CompileTarget
) -> CompiledStep:
    """Compile ``train_step`` or ``predict_step`` as ``fit`` and ``predict`` would.

    Raises UsageError where the model refuses the batch, and BackendError where this JAX cannot
    compile for CUDA, or says nothing of memory.
    """
    import jax

    sharding = jax.sharding.SingleDeviceSharding(_device(target))

    def described(value: Any) -> Any:
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=sharding)

    data = nests.mapped(described, batch.for_training() if training else batch.inputs)
    try:
        state, step = state_and_step(model, data, training=training)
        state = jax.tree.map(described, state)
        traced = jax.jit(step, donate_argnums=0).trace(state, data)
    except Exception as error:  # the model's own, of any kind
        specs = batch.for_training() if training else batch.inputs
        raise UsageError(
            f"{type(model).__name__} cannot be traced on {shown(specs)}: {in_short(error)}",
            hint="call it once on such a batch to see where; if the batch is wrong, give "
            "data=(inputs, targets) or input_shape=",
        ) from error
    try:
        compiled = traced.lower(lowering_platforms=("cuda",)).compile()
    except Exception as error:  # XLA's, which have no common type
        raise _cannot_compile(error) from error
    return _figures(compiled)


def check_compiler() -> None:
    """Load XLA for CUDA, which writes to stderr then; BackendError where this JAX has none."""
    _device(CompileTarget())


def _device(target: CompileTarget) -> Any:
    """A GPU that is not there."""
    from jax.experimental import topologies

    with _environment(_WITHOUT_LIBRARIES):
        try:
            return topologies.get_topology_desc(
                platform="cuda", target_config=target_text(target), topology="1x1x1"
            ).devices[0]
        except Exception as error:  # XLA's, which have no common type
            raise _cannot_compile(error) from error


def _figures(compiled: Any) -> CompiledStep:
    memory = compiled.memory_analysis()
    if memory is None:
        import jax

        raise BackendError(
            f"JAX {jax.__version__} says nothing of the memory of what it compiles without a GPU",
            hint=f"{_WITH_CUDA} --upgrade",
        )
    return CompiledStep(
        temp_bytes=int(memory.temp_size_in_bytes),
        output_bytes=int(memory.output_size_in_bytes - memory.alias_size_in_bytes),
        has_convolutions=_CONVOLUTION in compiled.as_text(),
    )


def _cannot_compile(error: Exception) -> BackendError:
    import jax

    reason = in_short(error)
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]} …"
    return BackendError(
        f"JAX {jax.__version__} cannot compile for CUDA here: {reason}",
        hint=f"{_WITH_CUDA} --upgrade, which needs no GPU; or estimate it as TensorFlow would run "
        "it: KERAS_BACKEND=tensorflow",
    )


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
