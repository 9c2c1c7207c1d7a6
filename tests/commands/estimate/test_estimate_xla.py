"""What is read of XLA's own buffer assignment; next to the real allocator: ``xla_checks.py``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.step import Step
from gpuconf.commands.estimate.xla.assignment import Share, is_whole, read_assignment
from gpuconf.commands.estimate.xla.compiler import Compiler
from gpuconf.commands.estimate.xla.program import ERROR, watched
from gpuconf.errors import BackendError, UsageError

_TEXT = Path(__file__).with_name("buffer_assignment.txt").read_text(encoding="utf-8")
_MODULE = """\
%fused_relu (p: f32[32,32]) -> f32[32,32] {
  ROOT %m = f32[32,32]{1,0} maximum(%p, %p), metadata={op_name="dense/Relu"}
}
"""


def test_an_assignment_is_read() -> None:
    """The block, results that belong to no variable, what lies in it when it is fullest, trials."""
    assert is_whole(_TEXT)
    assert not is_whole(_TEXT[: _TEXT.index("HloLiveRange")])
    found = read_assignment(_TEXT, _MODULE)
    assert (found.temp_bytes, found.output_bytes) == (12288, (24, 4))
    shares = {share.op_name: share.size_bytes for share in found.shares}
    assert shares == {"dense/Relu": 4096, "gradient_tape/dense/MatMul": 4112}
    assert found.shares[0] == Share("gradient_tape/dense/MatMul", 4112)
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
    step = Step(1, (), (), ())
    asked: list[bool] = []

    def trace(compiler: Compiler | None) -> Step:
        asked.append(compiler is not None)
        if compiler is not None and refuses:
            raise BackendError("XLA cannot")
        return step

    refuses = True
    without = Compiler(CompileTarget())
    assert without.step(trace) is step
    refuses = False
    assert without.step(trace) is step
    assert asked == [True, False, False]
    assert str(without.failed) == "XLA cannot"
    compiled = Compiler(CompileTarget())
    assert compiled.step(trace) is step
    refuses = True
    for compiler in (compiled, Compiler(CompileTarget(), must_compile=True)):
        with pytest.raises(BackendError, match="XLA cannot"):
            compiler.step(trace)
        assert compiler.failed is None


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


def test_a_compiler_that_is_killed(tmp_path: Path) -> None:
    """A process that was ended from outside is named as that, with what may have ended it."""
    worker = subprocess.Popen(["sleep", "60"])
    worker.kill()
    assert not watched(worker.pid, tmp_path)
    said = (tmp_path / ERROR).read_text(encoding="utf-8")
    assert said == "its process was ended by SIGKILL; this machine's memory may have run out"
    worker.wait()


def test_how_long_xla_may_take() -> None:
    """What the variable says must be a duration; the error shows one."""
    for text in ("soon", "5", "-1s"):
        with pytest.raises(UsageError, match=r"GPUCONF_XLA_TIMEOUT.*a number and a unit"):
            Compiler(CompileTarget(), environ={"GPUCONF_XLA_TIMEOUT": text})


def test_a_workspace_larger_than_the_gpu() -> None:
    """Each convolution would get it, so it is refused, before anything is started."""
    compiler = Compiler(CompileTarget(8 * GIB), workspace_bytes=9 * GIB, environ={})
    with pytest.raises(UsageError, match=r"9216 MiB for each convolution .* the GPU's 8192 MiB"):
        compiler.compile(None)
