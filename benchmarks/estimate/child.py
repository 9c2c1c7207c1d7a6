"""The child process of a measurement or an estimate: ``python -m benchmarks.estimate.child JSON``.

``{"measure": CASE}`` measures one case: the bytes that TensorFlow's allocator had in use.  The peak
is that of the whole process: building, compiling and two steps, of which the second has all slots
from its start.  If XLA compiles on a GPU, the first step is excluded, because it tries algorithms.

``{"estimate": CASES, "limit_bytes": N}`` calls gpuconf for cases of one model and one policy.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

from benchmarks.estimate.cases import OPTIMIZERS, Case
from benchmarks.models.data import Batches
from benchmarks.models.registry import MEASURED, SEED
from benchmarks.stages import CARD_LIMIT_VARIABLE, JIT_VARIABLE
from benchmarks.training.on_device import (
    check_device,
    device_name,
    is_card,
    memory,
    prepare,
    print_result,
    reset_memory_peak,
)

STEPS = 2
_LONGEST_ERROR = 500


def make_model(case: Case) -> Any:
    """Create the model of a case under its policy, without compiling it."""
    import keras

    keras.utils.set_random_seed(SEED)
    keras.mixed_precision.set_global_policy(case.policy)
    return MEASURED[case.model].build()


def compile_model(model: Any, case: Case) -> None:
    """Compile as everywhere here: the optimizer with its options, and XLA if the stage says so.

    In float16 the loss scale starts at 1: Keras's 32768 would overflow in the first steps, which
    would then update nothing and leave the slots unwritten.
    """
    import keras

    config = {"class_name": case.optimizer, "config": dict(OPTIMIZERS[case.optimizer])}
    optimizer = keras.optimizers.deserialize(config)
    if case.policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1.0)
    loss = MEASURED[case.model].make_loss()
    jit = bool(os.environ.get(JIT_VARIABLE))
    model.compile(optimizer, loss, MEASURED[case.model].loss_weights, jit_compile=jit)


def measure(case: Case) -> dict[str, Any]:
    """Run the case; return the allocator's bytes and the duration of a step."""
    model = make_model(case)
    compile_model(model, case)
    data = MEASURED[case.model].data(np.random.default_rng(SEED), case.batch)
    peaks, began = [_in_use("peak")], time.perf_counter()
    for step in range(STEPS):
        if _tries_algorithms() and step == STEPS - 1:
            reset_memory_peak()
        began = time.perf_counter()
        _step(model, data, is_training=case.is_training)
        peaks.append(_in_use("peak"))
    step_s = time.perf_counter() - began
    check_device("a variable", model.trainable_variables[0].value)
    return {
        "peak_bytes": max(peaks[0], peaks[-1]),
        "first_step_peak_bytes": peaks[1],
        "built_peak_bytes": peaks[0],
        "resident_bytes": _in_use("current"),
        "step_s": round(step_s, 3),
    }


def _tries_algorithms() -> bool:
    """Whether XLA tries algorithms in the first step: if it compiles and kernels run."""
    return bool(os.environ.get(JIT_VARIABLE)) and "GPUCONF_SIMCARD_KERNELS" not in os.environ


def _step(model: Any, data: Batches, *, is_training: bool) -> None:
    if is_training:
        model.train_on_batch(data.inputs, data.targets)
    else:
        model.predict_on_batch(data.inputs)


def _in_use(which: str) -> int:
    found = memory()
    if found is None:
        raise RuntimeError(f"the allocator of {device_name()} keeps no count")
    return int(found[which])


def _limit_card() -> None:
    """Set the stage's memory limit, if any, on TensorFlow's GPU."""
    import tensorflow as tf

    if limit_mib := os.environ.get(CARD_LIMIT_VARIABLE):
        (gpu,) = tf.config.list_physical_devices("GPU")
        one = tf.config.LogicalDeviceConfiguration(memory_limit=int(limit_mib))
        tf.config.set_logical_device_configuration(gpu, [one])


def call_gpuconf(model: Any, case: Case, limit_bytes: int | None) -> dict[str, Any]:
    """Call ``gpuconf.estimate`` for a compiled model; nothing else here calls it."""
    import gpuconf

    jit = bool(os.environ.get(JIT_VARIABLE))
    options: dict[str, Any] = {"training": case.is_training, "jit": jit}
    if (shape := MEASURED[case.model].input_shape) is not None:
        options["input_shape"] = shape
    if limit_bytes is not None:
        options["limit"] = limit_bytes
    began = time.perf_counter()
    found = gpuconf.estimate(model, case.batch, allow_growth=False, **options)
    return {
        "peak_bytes": found.peak_bytes,
        "resident_bytes": found.resident_bytes,
        "largest_batch": found.largest_batch,
        "took_s": round(time.perf_counter() - began, 3),
    }


def estimate(model: Any, case: Case, limit_bytes: int | None) -> dict[str, Any]:
    """The estimate, or the exception."""
    compile_model(model, case)
    try:
        return call_gpuconf(model, case, limit_bytes)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _in_short(error: Exception) -> str:
    """The lines about memory, or the first ones: TensorFlow appends a page of stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "OOM" in line or "memory" in line] or lines[:3]
    return f"{type(error).__name__}: {' | '.join(telling)}"[:_LONGEST_ERROR]


def main() -> None:
    """Measure or estimate and print the results; an exception is a result, too."""
    wanted = json.loads(sys.argv[1])
    if "estimate" in wanted:
        cases = [Case(*each) for each in wanted["estimate"]]
        model = make_model(cases[0])
        for case in cases:
            print_result(case=case.name, **estimate(model, case, wanted["limit_bytes"]))
        return
    try:
        _limit_card()
        prepare()
        found = measure(Case(*wanted["measure"]))
    except Exception as error:
        found = {"error": _in_short(error)}
    print_result(**found, on_card=is_card())


if __name__ == "__main__":
    main()
