"""The child process of an estimate: ``python -m gpuconf.commands.estimate.runner.program``.

It imports TensorFlow once, usually on a simulated GPU. Each line of stdin is a `request` that names
a folder with an exported step. A fork of this process creates the variables as Keras does, runs the
step, and writes the peaks that TensorFlow's allocator reports, along with its profile of the last
step. XLA also writes to that folder how a compiled step lays out its memory.

The answer is a line on stdout: ``done``, or ``failed`` or ``aborted`` (by a kernel) with the reason
in ``error.txt``.  With the option ``once``, this process runs one step and ends without an answer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.basics.json_values import decoded, plain
from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.gc_pause import gc_frozen
from gpuconf.commands.estimate.runner.exporting import GRAPH, ExportedStep, Tensor, read_step
from gpuconf.commands.estimate.step import OPTIMIZER_STATE, WEIGHTS
from gpuconf.support.children.family import adopting_orphans
from gpuconf.support.children.signals import end_with_parent, signal_name
from gpuconf.support.keras_api.graphs import define_functions

DONE, FAILED, ABORTED = b"done", b"failed", b"aborted"
ONCE = "once"  # the option to run one step in this process, which then ends
DUMPED = "dumped"
ERROR = "error.txt"
PEAKS, PROFILE = "peaks.json", "profile"
_NAME = "gpuconf_step"
_GPU = "GPU:0"
_STEPS = 10  # peaks differ with the moments at which copies end; the last step is profiled


class MeasuredPeaks(NamedTuple):
    """Peaks of TensorFlow's allocator, in bytes: while variables are created, and in each step."""

    built_bytes: int
    step_bytes: tuple[int, ...]


def main() -> None:
    """Answer requests until stdin ends."""
    end_with_parent()
    with adopting_orphans():
        _answer_requests()


def _answer_requests() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep TensorFlow's output out of the answers
    with gc_frozen():
        import tensorflow as tf

    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        limit_bytes, folder = line.rstrip("\n").split(" ", 1)
        results = results_of(Path(folder), int(limit_bytes))
        results.mkdir(exist_ok=True)
        # On a real GPU, TensorFlow may have started CUDA, which does not survive a fork.
        worker = 0 if ONCE in sys.argv else os.fork()
        if worker == 0:
            _work(tf, Path(folder), int(limit_bytes), results)
        print(_answer(worker, results).decode(), file=answers, flush=True)


def request(folder: Path, limit_bytes: int = 0) -> bytes:
    """The request line to run a step, under a memory limit if that is not 0."""
    return f"{limit_bytes} {folder}\n".encode()


def results_of(folder: Path, limit_bytes: int) -> Path:
    """Where the results are written; those under a limit are in a separate folder."""
    return folder / "limited" if limit_bytes else folder


def _answer(worker: int, folder: Path) -> bytes:
    _, status = os.waitpid(worker, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        (folder / ERROR).write_text(ended_by(number), encoding="utf-8")
        return ABORTED if is_abort(number) else FAILED
    return DONE if (folder / PEAKS).is_file() else FAILED


def is_abort(number: int) -> bool:
    """Whether a process causes this signal itself, as a kernel does by a failed check."""
    return number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)


def ended_by(number: int) -> str:
    """Describe a process that was ended by a signal."""
    why = "; this machine may have run out of memory" if number == signal.SIGKILL else ""
    return f"its process was terminated by {signal_name(number)}{why}"


def assignments(folder: Path) -> list[str]:
    """The buffer assignments that XLA has dumped for the step so far, as text."""
    return _dumped(folder, "-buffer-assignment.txt")


def modules(folder: Path) -> list[str]:
    """The compiled modules, as text."""
    return _dumped(folder, "gpu_after_optimizations.txt")


def _dumped(folder: Path, end: str) -> list[str]:
    files = (folder / DUMPED).glob(f"*{_NAME}*{end}")
    return [file.read_text(encoding="utf-8", errors="replace") for file in sorted(files)]


def read_peaks(folder: Path) -> MeasuredPeaks:
    """Read the peaks that a running fork has written."""
    return decoded(MeasuredPeaks, json.loads((folder / PEAKS).read_text(encoding="utf-8")))


def _work(tf: Any, folder: Path, limit_bytes: int, results: Path) -> None:
    """Run the step in ``folder``; never returns."""
    try:
        end_with_parent()
        if limit_bytes:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=limit_bytes // MIB)
            (gpu,) = tf.config.list_physical_devices("GPU")
            tf.config.set_logical_device_configuration(gpu, [limit])
        _run(tf, folder, read_step(folder), results)
    except BaseException as error:  # TensorFlow may raise anything; the parent reports it
        text = f"{type(error).__name__}: {error}"
        (results / ERROR).write_text(text, encoding="utf-8")
    finally:
        os._exit(0)


def _run(tf: Any, folder: Path, step: ExportedStep, results: Path) -> None:
    if step.is_compiled:
        flags = f"--xla_dump_to={folder / DUMPED} --xla_dump_hlo_module_re=.*{_NAME}.*"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    tf.config.threading.set_inter_op_parallelism_threads(1)  # the same order in each run
    memory = tf.config.experimental
    with tf.device(_GPU):
        variables = _made_variables(tf, step.variables)
        data = [_empty(tf, each) for each in step.data]
    built_bytes = memory.get_memory_info(_GPU)["peak"]
    function = _function(tf, folder, step, variables)
    peaks = []
    for number in range(_STEPS):
        is_last = number == _STEPS - 1
        memory.reset_memory_stats(_GPU)
        if is_last:
            levels = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 0}
            options = tf.profiler.experimental.ProfilerOptions(**levels)
            tf.profiler.experimental.start(str(results / PROFILE), options)
        outputs = function(*data)
        if is_last:
            tf.profiler.experimental.stop()
        peaks.append(memory.get_memory_info(_GPU)["peak"])
        del outputs
    found = MeasuredPeaks(built_bytes, tuple(peaks))
    (results / PEAKS).write_text(json.dumps(plain(found)), encoding="utf-8")


def _function(tf: Any, folder: Path, step: ExportedStep, variables: list[Any]) -> Any:
    """The step as a ``tf.function`` of its batch."""
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString((folder / GRAPH).read_bytes())
    define_functions(definition)
    used = {name.partition(":")[0] for node in definition.node for name in node.input}
    with tf.device(_GPU):
        constants = [_constant(tf, each) for each in step.constants]
    captured = {
        each.name: variable.handle
        for each, variable in zip(step.variables, variables, strict=True)
        if each.name
    }
    names = [each.name for each in step.constants]
    captured |= dict(zip(names, constants, strict=True))

    def gpuconf_step(*data: Any) -> Any:
        capture = tf.compat.v1.get_default_graph().capture
        values = {name: capture(outside) for name, outside in captured.items()}
        values |= {each.name: value for each, value in zip(step.data, data, strict=True)}
        # Inputs that a custom step does not use, such as labels, are not in the graph.
        given = {name: values[name] for name in values if name.partition(":")[0] in used}
        return tf.graph_util.import_graph_def(
            definition, input_map=given, return_elements=list(step.outputs), name=""
        )

    return tf.function(gpuconf_step, jit_compile=step.is_compiled or None, autograph=False)


def _made_variables(tf: Any, tensors: tuple[Tensor, ...]) -> list[Any]:
    """Create variables as Keras does: random weights; optimizer state shares zeros of its shape.

    Drawing the values takes more memory than the weight itself. The shared zeros are copied in the
    first step.
    """
    zeros: dict[tuple[object, ...], Any] = {}
    made = []
    for each in tensors:
        dtype = tf.as_dtype(each.dtype)
        if each.kind == WEIGHTS and dtype.is_floating:
            values = tf.random.stateless_uniform(each.shape, (1, 2), -1.0, 1.0, dtype)
        elif each.kind == OPTIMIZER_STATE:
            known = (each.shape, each.dtype)
            if known not in zeros:
                zeros[known] = tf.zeros(each.shape, dtype)
            values = zeros[known]
        else:
            values = tf.zeros(each.shape, dtype)
        made.append(tf.Variable(values, dtype=dtype))
        del values
    return made


def _empty(tf: Any, tensor: Tensor) -> Any:
    """A tensor that is never written to, so it uses no physical memory."""
    return tf.raw_ops.Empty(shape=tensor.shape, dtype=tf.as_dtype(tensor.dtype), init=False)


def _constant(tf: Any, tensor: Tensor) -> Any:
    if tensor.values is None:
        return _empty(tf, tensor)
    return tf.constant(tensor.values, tensor.dtype, tensor.shape)


if __name__ == "__main__":
    main()
