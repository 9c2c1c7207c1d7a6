"""What runs a step: its refusals before anything is started, a killed fork, and what was measured.

The runs themselves are in ``runner_checks.py``.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuconf.basics.units import GIB
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.runner import measured, program, runner
from gpuconf.commands.estimate.runner.child import Child
from gpuconf.commands.estimate.runner.environment import environ_here
from gpuconf.commands.estimate.runner.measured import _kind, _operations, _pieces, _Weight
from gpuconf.commands.estimate.runner.runner import KernelAbortedError, StepRunner, TooLargeError
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    BACKWARD,
    FORWARD,
    GRADIENT,
    TEMPORARY,
    UPDATE,
    WORKSPACE,
    Operation,
)
from gpuconf.commands.estimate.tensorflow.attribution import LayersByName
from gpuconf.errors import BackendError, GpuconfError, MissingDependencyError, UsageError
from gpuconf.support.xplane import Event
from tests.commands.estimate.hand_made_steps import piece


def taken(address: int, size: int, *, of: str = "", region: str = "") -> Event:
    """An allocation, as TensorFlow's profiler records it."""
    stats: dict[str, int | float | str] = {
        "addr": address,
        "requested_bytes": size,
        "tf_op": of,
        "region_type": region,
    }
    return Event("MemoryAllocation", 0, stats)


def freed(address: int, *, of: str = "") -> Event:
    """The end of the allocation at this address."""
    return Event("MemoryDeallocation", 0, {"addr": address, "tf_op": of})


def test_pieces_are_read_from_events() -> None:
    """From an allocation to before its end; an address may return, and what is left stays."""
    events = [
        taken(1, 10, of="a"),
        taken(2, 20, of="a", region="temp"),
        freed(2, of="a"),
        freed(9, of="a"),  # from before the step
        taken(2, 30, of="b"),
        freed(1, of="b"),
        taken(3, 5, of="c"),
        freed(2, of="c"),
    ]
    parts = {"a": FORWARD, "b": BACKWARD, "c": UPDATE}
    operations = [Operation("", parts[str(each.stats["tf_op"])]) for each in events]
    assert _pieces(events, operations, {_Weight(None, 30)}) == [
        piece(10, 0, 4),
        piece(20, 1, 1, WORKSPACE),
        piece(30, 4, 6, GRADIENT),
        piece(5, 6, 7, TEMPORARY),
    ]


@pytest.mark.parametrize(
    ("part", "size", "kind"),
    [
        (FORWARD, 8, ACTIVATION),
        (BACKWARD, 8, GRADIENT),
        (BACKWARD, 9, TEMPORARY),
        (UPDATE, 8, TEMPORARY),
    ],
)
def test_the_purpose_of_a_piece(part: str, size: int, kind: str) -> None:
    """By its part of the step; a gradient has the size of a weight of its layer, here 8."""
    by = Operation("op", part, "dense")
    assert _kind(size, by, {_Weight("dense", 8), _Weight("other", 9)}) == kind


def test_operations_of_events() -> None:
    """By name; what TensorFlow's optimizers have added is in the part where it runs."""
    names = ["model/conv/Conv2D", "model/conv/Relu-0-TransposeNHWCToNCHW-LayoutOptimizer", "x", ""]
    events = [taken(1, 1, of=name) for name in names]
    parts = {"model/conv/Conv2D": FORWARD, "model/conv/Relu": BACKWARD}
    layers = LayersByName(["model/conv/Conv2D", "model/conv/Relu"], ())
    found = [(each.name, each.part) for each in _operations(events, layers, parts)]
    assert found == [
        ("model/conv/Conv2D", FORWARD),
        ("model/conv/Relu", BACKWARD),
        ("x", BACKWARD),
        ("unknown", BACKWARD),
    ]


def test_what_a_run_cannot_show_is_noted() -> None:
    """Sizes that depend on the data, loops, convolutions without a workspace; in functions too."""

    def notes(*kinds: str, workspace_bytes: int = 0) -> list[str]:
        first, *others = [SimpleNamespace(name=f"the/{kind}", op=kind) for kind in kinds]
        library = SimpleNamespace(function=[SimpleNamespace(node_def=others)])
        definition = SimpleNamespace(node=[first], library=library)
        graph: Any = SimpleNamespace(as_graph_def=lambda: definition)
        step_runner: Any = SimpleNamespace(workspace_bytes=workspace_bytes)
        return list(measured._notes(graph, step_runner))

    empty, loop, workspace = notes("Where", "StatelessWhile", "Conv2D", "Relu")
    assert "such as the/Where, depends on the data: counted as for zeros" in empty
    assert "1 loops, such as the/StatelessWhile" in loop
    assert "without cuDNN workspace (--workspace-limit 256MiB" in workspace
    assert notes("Conv2D", workspace_bytes=1) == notes("MatMul") == []


def test_a_fork_that_is_killed(tmp_path: Path) -> None:
    """It is named as that, with what may have ended it."""
    worker = subprocess.Popen(["sleep", "60"])
    worker.kill()
    assert program._answer(worker.pid, tmp_path) == program.FAILED
    said = (tmp_path / program.ERROR).read_text(encoding="utf-8")
    assert said == "its process was terminated by SIGKILL; this machine may have run out of memory"
    worker.wait()


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (signal.SIGABRT, KernelAbortedError),
        (signal.SIGSEGV, KernelAbortedError),
        (signal.SIGKILL, BackendError),
        (signal.SIGTERM, BackendError),
    ],
)
def test_only_a_kernels_own_signal_is_an_abort(
    tmp_path: Path, number: signal.Signals, kind: type[BackendError]
) -> None:
    """Another process ends a fork with others, and this machine when its memory is full."""
    worker = subprocess.Popen(["sleep", "60"])
    worker.send_signal(number)
    answer = program._answer(worker.pid, tmp_path)
    child: Any = SimpleNamespace(folder=tmp_path)
    error = StepRunner(CompileTarget())._refused(child, tmp_path / program.ERROR, answer)
    assert type(error) is kind
    assert number.name in error.message
    worker.wait()


@pytest.mark.parametrize(
    "reason",
    [
        "ResourceExhaustedError: OOM when allocating tensor with shape[8]",
        "NotFoundError: No algorithm worked!  Profiling failure: RESOURCE_EXHAUSTED: Out of memory",
    ],
)
def test_what_is_a_lack_of_memory(tmp_path: Path, reason: str) -> None:
    """TensorFlow's own error, and cuDNN's if no algorithm's workspace was left."""
    file = tmp_path / program.ERROR
    file.write_text(reason, encoding="utf-8")
    child: Any = SimpleNamespace(folder=tmp_path)
    error = StepRunner(CompileTarget())._refused(child, file, program.FAILED)
    assert type(error) is TooLargeError


@pytest.mark.parametrize(
    ("answer", "reason", "runs"),
    [
        (program.DONE, "", True),
        (program.FAILED, "ResourceExhaustedError: OOM when allocating", False),
        (program.ABORTED, "its process was terminated by SIGABRT", False),
        (program.FAILED, "InvalidArgumentError: something else", None),
    ],
)
def test_a_run_within_the_limit(
    tmp_path: Path, answer: bytes, reason: str, runs: bool | None
) -> None:
    """It fails for lack of memory, or a kernel aborts; any other failure is an error."""

    def ask(folder: Path, limit_bytes: int) -> bytes:
        results = program.results_of(folder, limit_bytes)
        results.mkdir()
        (results / program.ERROR).write_text(reason, encoding="utf-8")
        return answer

    child: Any = SimpleNamespace(folder=tmp_path, ask=ask)
    made = StepRunner(CompileTarget(), limit_bytes=GIB, environ={})
    peaks = program.MeasuredPeaks(0, (GIB,))
    if runs is None:
        with pytest.raises(BackendError, match="something else"):
            made._runs_in_limit(child, tmp_path, peaks)
    else:
        assert made._runs_in_limit(child, tmp_path, peaks) == runs


def test_other_children_of_this_process_are_left_alone() -> None:
    """A user's thread may start one during an estimate; only the step's own processes end."""
    ended = Child(os.environ, is_for_one=True, timeout_s=60, when_silent=lambda _s: None)
    with ended:
        other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert other.poll() is None
    assert ended.has_ended
    other.kill()
    other.wait()


@pytest.mark.parametrize("text", ["soon", "5", "-1s"])
def test_how_long_a_step_may_take(text: str) -> None:
    """What the variable says must be a duration; the error shows one."""
    with pytest.raises(UsageError, match=r"GPUCONF_STEP_TIMEOUT.*a number and a unit"):
        StepRunner(CompileTarget(), environ={"GPUCONF_STEP_TIMEOUT": text})


def test_a_workspace_larger_than_the_gpu() -> None:
    """Each convolution would get it, so it is refused, before anything is started."""
    with pytest.raises(UsageError, match=r"9216 MiB for each convolution .* the GPU's 8192 MiB"):
        StepRunner(CompileTarget(8 * GIB), workspace_bytes=9 * GIB, environ={})


def refusal(environ: dict[str, str], *, is_compiled: bool = False) -> GpuconfError:
    """The error of a runner that cannot start; it has a hint and leaves nothing."""
    with StepRunner(CompileTarget(), environ=environ) as made:
        with pytest.raises(GpuconfError) as caught:
            made.start(is_compiled=is_compiled)
        assert made._child is None
    assert caught.value.hint
    return caught.value


def test_this_machines_gpu() -> None:
    """``--here`` uses the first of the visible GPUs, and is an error where there is none."""
    with pytest.raises(BackendError, match="this machine has no NVIDIA GPU to measure on"):
        StepRunner(CompileTarget(), is_here=True, environ={}).start(is_compiled=False)
    for visible, first in (({"CUDA_VISIBLE_DEVICES": "1,0"}, "1"), ({}, "0")):
        assert environ_here(visible)["CUDA_VISIBLE_DEVICES"] == first


@pytest.mark.parametrize("is_compiled", [False, True])
def test_where_no_step_can_run(
    is_compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on Linux, with a TensorFlow for CPUs, without a C compiler: one error each."""
    tensorflow = SimpleNamespace(is_cuda_build=False)
    with monkeypatch.context() as patched:
        found = SimpleNamespace(tensorflow=tensorflow)
        patched.setattr(runner, "find_frameworks", lambda *_: found)
        error = refusal({}, is_compiled=is_compiled)
        assert isinstance(error, BackendError)
        assert "tensorflow-cpu" in error.message
        assert error.hint == "pip install tensorflow (no GPU is needed)"
    with monkeypatch.context() as patched:
        patched.setattr("sys.platform", "darwin")
        error = refusal({}, is_compiled=is_compiled)
        assert "a simulated GPU needs Linux, but this is darwin" in error.message
    if not is_compiled:
        bare = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CC": "no-such-compiler"}
        for name, text in bare.items():
            monkeypatch.setenv(name, text)
        error = refusal(bare)
        assert isinstance(error, MissingDependencyError)
        assert "C compiler" in error.message
