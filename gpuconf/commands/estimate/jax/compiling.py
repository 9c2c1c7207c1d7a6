"""Compiles a Keras model's step on JAX with XLA for a GPU that is not present."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from gpuconf.basics.environment import Patch
from gpuconf.commands.estimate.compile_target import CompileTarget, target_text
from gpuconf.commands.estimate.keras_models.data import Batch, shown
from gpuconf.commands.estimate.keras_models.outputs import in_short
from gpuconf.errors import BackendError, UsageError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.jax_steps import state_and_step

_WITH_CUDA = 'pip install "jax[cuda12]"'
# The plugin checks for the CUDA libraries, which compiling does not need.
_NO_CHECK = "JAX_SKIP_CUDA_CONSTRAINTS_CHECK"
_LONGEST_REASON = 200
_CONVOLUTION = "__cudnn$conv"


class CompiledStep(NamedTuple):
    """Sizes in bytes as assigned by XLA; ``temp_bytes`` is one block, allocated only for the step.

    ``output_bytes`` is the size of the results that do not overwrite the model's own variables.
    """

    temp_bytes: int
    output_bytes: int
    has_convolutions: bool


def compiled_step(
    model: Any, batch: Batch, *, training: bool, target: CompileTarget
) -> CompiledStep:
    """Compile ``train_step`` or ``predict_step`` as ``fit`` and ``predict`` would.

    Raises UsageError if the model rejects the batch, and BackendError if this JAX cannot compile
    for CUDA or reports no memory.
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
    except Exception as error:  # any kind, from the model
        specs = batch.for_training() if training else batch.inputs
        raise UsageError(
            f"{type(model).__name__} cannot be traced with {shown(specs)}: {in_short(error)}",
            hint="call it once on such a batch to see where; if the batch is wrong, pass "
            "data=(inputs, targets) or input_shape=",
        ) from error
    try:
        compiled = traced.lower(lowering_platforms=("cuda",)).compile()
    except Exception as error:  # XLA's, which have no common type
        raise _cannot_compile(error) from error
    return _figures(compiled)


def check_compiler() -> None:
    """Load XLA for CUDA, which then writes to stderr; raise BackendError if this JAX lacks it."""
    _device(CompileTarget())


def _device(target: CompileTarget) -> Any:
    """Return a description of a GPU that is not present."""
    from jax.experimental import topologies

    patch = Patch({_NO_CHECK: (os.environ.get(_NO_CHECK), "1")})
    patch.apply(os.environ)
    try:
        return topologies.get_topology_desc(
            platform="cuda", target_config=target_text(target), topology="1x1x1"
        ).devices[0]
    except Exception as error:  # XLA's, which have no common type
        raise _cannot_compile(error) from error
    finally:
        patch.undo(os.environ)


def _figures(compiled: Any) -> CompiledStep:
    memory = compiled.memory_analysis()
    if memory is None:
        import jax

        raise BackendError(
            f"JAX {jax.__version__} does not report the memory of steps compiled without a GPU",
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
