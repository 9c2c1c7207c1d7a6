"""The compiling child process, on a simulated GPU: ``gpuconf.commands.estimate.xla.program``.

It imports TensorFlow once.  Each line of stdin names a folder with an exported step.  A fork of
this process compiles the step there, and is ended once XLA has written the buffer assignment,
since XLA would then generate code that never runs.  The answer is a line on stdout: ``done``, or
``failed`` with the reason in the folder's ``error.txt``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from gpuconf.commands.estimate.collecting import made_to_stay
from gpuconf.commands.estimate.xla.assignment import is_whole
from gpuconf.commands.estimate.xla.exporting import GRAPH, Tensor, read_step
from gpuconf.support.children.signals import end_with_parent, signal_name
from gpuconf.support.keras_api.graphs import define_functions

DUMPED = "dumped"
ERROR = "error.txt"
_NAME = "gpuconf_step"
_POLL_S = 0.02


def main() -> None:
    """Compile steps until stdin ends."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep TensorFlow's output out of the answers
    with made_to_stay():
        import tensorflow as tf

    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        worker = os.fork()
        if worker == 0:
            _work(tf, folder)
        print("done" if watched(worker, folder) else "failed", file=answers, flush=True)


def watched(worker: int, folder: Path) -> bool:
    """Whether the worker wrote an assignment; it has ended when this returns."""
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        is_there = any(is_whole(text) for text in assignments(folder))
        if ended:
            if os.WIFSIGNALED(status) and not is_there:
                said = ended_by(os.WTERMSIG(status))
                (folder / ERROR).write_text(said, encoding="utf-8")
            return is_there
        if is_there:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
            return True
        time.sleep(_POLL_S)


def ended_by(number: int) -> str:
    """Describe a process that was ended by a signal."""
    why = "; this machine's memory may have run out" if number == signal.SIGKILL else ""
    return f"its process was ended by {signal_name(number)}{why}"


def assignments(folder: Path) -> list[str]:
    """The texts of the buffer assignments that XLA has dumped for the step so far."""
    return _dumped(folder, "-buffer-assignment.txt")


def modules(folder: Path) -> list[str]:
    """The texts of the compiled modules."""
    return _dumped(folder, "gpu_after_optimizations.txt")


def _dumped(folder: Path, end: str) -> list[str]:
    files = (folder / DUMPED).glob(f"*{_NAME}*{end}")
    return [file.read_text(encoding="utf-8", errors="replace") for file in sorted(files)]


def _work(tf: Any, folder: Path) -> None:
    """Compile the step in ``folder``; never returns."""
    try:
        end_with_parent()
        flags = f"--xla_dump_to={folder / DUMPED} --xla_dump_hlo_module_re=.*{_NAME}.*"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
        _compile(tf, folder)
    except BaseException as error:  # TensorFlow may raise anything; the parent reports it
        text = f"{type(error).__name__}: {error}"
        (folder / ERROR).write_text(text, encoding="utf-8")
    finally:
        os._exit(0)


def _compile(tf: Any, folder: Path) -> None:
    step = read_step(folder)
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString((folder / GRAPH).read_bytes())
    define_functions(definition)
    used = {name.partition(":")[0] for node in definition.node for name in node.input}
    with tf.device("GPU:0"):
        variables = [_variable(tf, each) for each in step.variables]
        constants = [_constant(tf, each) for each in step.constants]

    def gpuconf_step(*data: Any) -> Any:
        capture = tf.compat.v1.get_default_graph().capture
        outside = [*(each.handle for each in variables), *constants]
        names = [each.name for group in step[:3] for each in group]
        values = zip(names, [*data, *map(capture, outside)], strict=True)
        # Inputs that a custom step does not use, such as labels, are not in the graph.
        given = {name: value for name, value in values if name.partition(":")[0] in used}
        return tf.graph_util.import_graph_def(
            definition, input_map=given, return_elements=list(step.outputs), name=""
        )

    specs = [tf.TensorSpec(each.shape, each.dtype) for each in step.data]
    compiled = tf.function(gpuconf_step, jit_compile=True, autograph=False)
    try:
        compiled.experimental_get_compiler_ir(*specs)(stage="optimized_hlo")
    except (ValueError, TypeError):  # TensorFlow before 2.17 accepts only tensors
        with tf.device("GPU:0"):
            data = [_empty(tf, each) for each in step.data]
        compiled.experimental_get_compiler_ir(*data)(stage="optimized_hlo")


def _empty(tf: Any, tensor: Tensor) -> Any:
    """A tensor that is never written to, so it uses no physical memory."""
    return tf.raw_ops.Empty(shape=tensor.shape, dtype=tf.as_dtype(tensor.dtype), init=False)


def _constant(tf: Any, tensor: Tensor) -> Any:
    if tensor.values is None:
        return _empty(tf, tensor)
    return tf.constant(tensor.values, tensor.dtype, tensor.shape)


def _variable(tf: Any, tensor: Tensor) -> Any:
    return tf.Variable(_empty(tf, tensor), shape=tensor.shape, dtype=tensor.dtype)


if __name__ == "__main__":
    main()
