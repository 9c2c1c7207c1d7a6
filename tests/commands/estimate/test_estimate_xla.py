"""What is read of XLA's own buffer assignment; next to the real allocator: ``xla_checks.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.step import Step
from gpuconf.commands.estimate.xla.assignment import OperationShare, read_assignment
from gpuconf.errors import BackendError
from tests.commands.estimate.hand_made_steps import step

_TEXT = Path(__file__).with_name("buffer_assignment.txt").read_text(encoding="utf-8")
_MODULE = """\
%fused_relu (p: f32[32,32]) -> f32[32,32] {
  ROOT %m = f32[32,32]{1,0} maximum(%p, %p), metadata={op_name="dense/Relu"}
}
"""


def test_an_assignment_is_read() -> None:
    """The block, results that belong to no variable, what lies in it when it is fullest, trials."""
    found = read_assignment(_TEXT, _MODULE)
    assert (found.temp_bytes, found.output_bytes) == (12288, (24, 4))
    shares = {share.op_name: share.size_bytes for share in found.shares}
    assert shares == {"dense/Relu": 4096, "gradient_tape/dense/MatMul": 4112}
    assert found.shares[0] == OperationShare("gradient_tape/dense/MatMul", 4112)
    assert found.fullest == "gradient_tape/dense/MatMul"
    # Two operands and a result of 4096 bytes, and a workspace of 64, with 16 MiB of guards each.
    assert found.first_step_bytes == 3 * 4096 + 64 + 4 * 16 * MIB
    assert not found.has_convolutions
    assert read_assignment(_TEXT, _MODULE, workspace_bytes=1 << 20) == found


def test_a_convolution_has_a_workspace_while_it_runs() -> None:
    """The block grows by what is more than at its fullest; a workspace is no operation's share."""
    text = _TEXT.replace("__cublas$gemm", "__cudnn$convForward").replace("dense/MatMul", "conv")
    without = read_assignment(text, _MODULE)
    assert without.has_convolutions
    assert without.temp_bytes == 12288
    # 4096 + 4096 + 16 bytes are in use when it runs, and never more: the workspace comes on top.
    found = read_assignment(text, _MODULE, workspace_bytes=1 << 20)
    assert found.temp_bytes == 12288 + (1 << 20)
    assert found.shares == without.shares
    # Later 20000 bytes are in use, without a workspace: it fits below that, or adds what is above.
    later = text.replace("(size=8192,offset=0)", "(size=20000,offset=0)")
    assert read_assignment(later, _MODULE, workspace_bytes=10000).temp_bytes == 12288
    larger = read_assignment(later, _MODULE, workspace_bytes=12000)
    assert larger.temp_bytes == 12288 + 4096 + 4096 + 16 + 12000 - 20000


def test_the_first_step_decides_whether_xla_compiles() -> None:
    """Figures of both kinds stand in no estimate, and what is requested by name is not given up."""
    made = step([])
    asked: list[bool] = []

    def trace(is_compiled: bool) -> Step:
        asked.append(is_compiled)
        if is_compiled and refuses:
            raise BackendError("XLA cannot")
        return made

    refuses = True
    without = StepRunner(CompileTarget())
    assert without.step(trace, jit=True) is made
    refuses = False
    assert without.step(trace, jit=True) is made
    assert asked == [True, False, False]
    assert str(without.failed) == "XLA cannot"
    compiled = StepRunner(CompileTarget())
    assert compiled.step(trace, jit=False) is compiled.step(trace, jit=True) is made
    assert asked[3:] == [False, True]
    refuses = True
    for runner in (compiled, StepRunner(CompileTarget(), must_compile=True)):
        with pytest.raises(BackendError, match="XLA cannot"):
            runner.step(trace, jit=True)
        assert runner.failed is None


def test_the_fullest_moment_of_a_deep_network() -> None:
    """Of thousands of values, each on top of the one before it, the largest pair is found."""
    count, largest = 4000, 2500
    head = f"BufferAssignment:\nallocation 0: size {64 * count}, preallocated-temp:\n"
    sizes = [64 if number == largest else 32 for number in range(count)]
    values = "".join(
        f" value: <{number} v{number} @0> (size={size},offset={64 * (number % 2)}): f32[8]{{0}}\n"
        for number, size in enumerate(sizes)
    )
    lives = "".join(f"    v{number}{{}}:{number}-{number + 2}\n" for number in range(count))
    end = f"\nUsed values:\nHloLiveRange (max {count}):\n  BufferLiveRange:\n{lives}"
    found = read_assignment(f"{head}{values}{end}")
    assert found.fullest == f"v{largest}"
    assert {share.size_bytes for share in found.shares} == {64, 32}
