"""What XLA compiles is estimated as XLA's own buffer assignment says: beside the real allocator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.errors import BackendError, UsageError
from gpuconf.footprint.compile_target import CompileTarget
from gpuconf.footprint.step import Step
from gpuconf.footprint.xla.assignment import Share, is_whole, read_assignment
from gpuconf.footprint.xla.compiler import Compiler
from gpuconf.footprint.xla.program import ERROR, watched
from gpuconf.simcard import CardSpec, simulated_card, xla_for_command
from gpuconf.units import GIB, MIB
from tests.programs.processes import run

_TEXT = """\
BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[32,32]| at ShapeIndex {}, maybe-live-out:
 value: <0 arg0.1 @0> (size=4096,offset=0): f32[32,32]{1,0}
allocation 1: size 24, output shape is |(f32[], f32[], f32[32,32])|, maybe-live-out:
 value: <9 tuple{} @0> (size=24,offset=0): (f32[], f32[], f32[32,32])
allocation 2: size 4, maybe-live-out:
 value: <8 loss @0> (size=4,offset=0): f32[]
allocation 3: size 1, thread-local:
 value: <7 add @0> (size=1,offset=0): pred[]
allocation 4: size 12288, preallocated-temp:
 value: <1 relu @0> (size=4096,offset=0): f32[32,32]{1,0}
 value: <2 gemm{} @0> (size=16,offset=12032): (f32[32,32], s8[64])
 value: <3 gemm{0} @0> (size=4096,offset=4096): f32[32,32]{1,0}
 value: <4 late @0> (size=8192,offset=0): f32[64,32]{1,0}

Total bytes used: 20513 (20.0KiB)

Used values:
<0 arg0.1 @0>
 from instruction: %arg0.1 = f32[32,32]{1,0} parameter(0)
<1 relu @0>
 from instruction: %relu = f32[32,32]{1,0} fusion(%arg0.1), kind=kLoop, calls=%fused_relu
<3 gemm{0} @0>
 from instruction: %gemm = (f32[32,32]{1,0}, s8[64]{0}) custom-call(%relu, %arg0.1), \
custom_call_target="__cublas$gemm", metadata={op_name="gradient_tape/dense/MatMul"}
<4 late @0>
 from instruction: %late = f32[64,32]{1,0} fusion(%gemm), metadata={op_name="adam/Mul"}
HloLiveRange (max 9):
  InstructionSequence:
    0:arg0.1
  BufferLiveRange:
    arg0.1{}:0-9
    relu{}:1-4
    gemm{}:2-3
    gemm{0}:2-4
    late{}:6-7
"""
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
    """Figures of both kinds stand in no estimate, and what is asked for by name is not given up."""
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


_ESTIMATES = """
import json
import os
import sys
import tempfile
import numpy as np
import gpuconf
from tests.footprint import compiled_steps
found = {}
for name in compiled_steps.MODELS:
    model = compiled_steps.compiled(name)
    made = gpuconf.estimate(model, compiled_steps.BATCH, card="8GiB")
    assert made.setting.jit, made.setting
    assert any("XLA for an assumed GPU" in note and "8192 MiB" in note for note in made.notes)
    assert sum(row.total_bytes for row in made.layers) == made.peak_bytes
    found[name] = made.peak_bytes
    if name == "convnet":
        plain = gpuconf.estimate(model, compiled_steps.BATCH, jit=False)
        assert not plain.setting.jit
        assert plain.peak_bytes != made.peak_bytes
        layers = {row.layer for row in made.layers if row.activations_bytes}
        assert layers & {"conv2d", "conv2d_1", "batch_normalization", "re_lu"}, layers
        roomy = gpuconf.estimate(model, compiled_steps.BATCH, workspace_limit="256MiB")
        assert 200 << 20 < roomy.peak_bytes - made.peak_bytes < 300 << 20, roomy.peak_bytes
        said = []
        small = gpuconf.estimate(model, 8, limit="64MiB", phases=True, progress=said.append)
        assert said[:2] == ["tracing a training step of batch 8", "compiling that step with XLA"]
        assert small.setting.jit and small.phases and small.largest_batch >= 8, small
import keras
recurrent = keras.Sequential([keras.Input((16, 8)), keras.layers.LSTM(8), keras.layers.Dense(1)])
recurrent.compile("sgd", "mse")
made = gpuconf.estimate(recurrent, 4)
assert not made.setting.jit, "cuDNN's kernel is not compiled"
assert not any("counted without" in note for note in made.notes), "Keras itself decides that"
try:
    gpuconf.estimate(recurrent, 4, jit=True)
except gpuconf.BackendError as error:
    assert "XLA cannot compile CudnnRNNV3 for a GPU" in str(error), error
else:
    raise AssertionError("XLA has no CudnnRNNV3")
class Doubled(keras.layers.Layer):
    def build(self, shape):
        self.weight = self.add_weight(shape=(shape[-1], shape[-1]))
    def call(self, x):
        import tensorflow as tf
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, self.weight), lambda: x)
conditional = keras.Sequential([keras.Input((8,)), Doubled(), keras.layers.Dense(1)])
conditional.compile("sgd", "mse")
made = gpuconf.estimate(conditional, 4, jit=True)
assert made.setting.jit and made.peak_bytes > made.resident_bytes, made
class Unlabelled(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1 << 16)
    def call(self, x):
        return self.dense(x)
    def train_step(self, data):
        import tensorflow as tf
        x, _ = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.dense(x) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}
alone = Unlabelled()
alone.compile("adam", "mse")
made = gpuconf.estimate(alone, 4, input_shape=(4,), jit=True)
assert made.setting.jit, "a step that leaves its labels aside is compiled"
MIB, x, narrow, wide = 1 << 20, np.zeros([4, 4]), np.zeros([4, 1]), np.zeros([4, 1 << 18])
for jit, least, most in ((True, 4, 5), (False, 0, 0)):
    few, many = (
        gpuconf.estimate(alone, 4, data=(x, labels), jit=jit, allow_growth=False).peak_bytes / MIB
        for labels in (narrow, wide)
    )
    assumed = gpuconf.estimate(alone, 4, input_shape=(4,), jit=jit, allow_growth=False)
    assert abs(assumed.peak_bytes / MIB - few) < 0.1, "labels that nobody reads or gave"
    assert least <= many - few <= most, (jit, few, many)
assert os.listdir(tempfile.gettempdir()) == [], "nothing is left of a compiler"
os.environ["GPUCONF_XLA_TIMEOUT"] = "0.01s"
slow = gpuconf.estimate(compiled_steps.compiled("perceptron"), 4)
assert not slow.setting.jit
assert "XLA has not compiled this step within 0.01s" in slow.notes[0], slow.notes
assert os.listdir(tempfile.gettempdir()) == [], "nothing is left of one that was too slow"
del os.environ["GPUCONF_XLA_TIMEOUT"]
os.environ["CXX"] = os.environ["CC"] = "no-such-compiler"
lacking = gpuconf.estimate(compiled_steps.compiled("perceptron"), 4)
assert not lacking.setting.jit
assert "counted without" in lacking.notes[0] and "compiler" in lacking.notes[0], lacking.notes
import tensorflow as tf
from gpuconf.footprint.scripts.estimating import estimate_training
from gpuconf.footprint.scripts.step_function import StepFunction
weights, optimizer = tf.Variable(tf.ones([8, 8])), keras.optimizers.SGD()
optimizer.build([weights])
@tf.function(jit_compile=True)
def own_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.matmul(x, weights))
    optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights]))
training = StepFunction(own_step, (tf.zeros([4, 8]),), {}, (optimizer,), (weights,)).training("")
options = dict.fromkeys(("optimizer", "loss", "mixed_precision", "input_shape", "limit", "advise"))
options |= {"training": True, "phases": False}
own = estimate_training(training, 4, jit=None, **options)
assert not own.setting.jit and "counted without" in own.notes[0], own.notes
try:
    estimate_training(training, 4, jit=True, **options)
except gpuconf.GpuconfError as error:
    assert "compiler" in str(error), error
else:
    raise AssertionError("there is no compiler")
print("FOUND", json.dumps(found))
"""


@pytest.mark.slow
def test_against_the_real_allocator(tmp_path: Path) -> None:
    """Keras's default on the simulated card: the estimate is within 5 % of the process's peak.

    Layers that XLA does not compile stay op by op, and what cannot be compiled here is said.
    """
    pytest.importorskip("tensorflow")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    base = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": os.getcwd()}
    base["TMPDIR"] = str(temporary)
    told = run([sys.executable, "-c", _ESTIMATES], tmp_path, environ=base, timeout_s=300)
    assert told.returncode == 0, told.stderr
    estimated = json.loads(told.stdout.splitlines()[-1].removeprefix("FOUND "))
    xla = xla_for_command([sys.executable])
    for name, peak_bytes in estimated.items():
        with simulated_card(CardSpec(total_bytes=8 * GIB)) as card:
            environ = {**card.environment(os.environ, xla=xla), "PYTHONPATH": os.getcwd()}
            environ |= {"GPUCONF_SIMCARD_KERNELS": "skip", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
            command = [sys.executable, "-m", "tests.footprint.compiled_steps", name]
            done = run(command, tmp_path, environ=environ, timeout_s=300)
        assert done.returncode == 0, done.stderr
        measured = json.loads(done.stdout.splitlines()[-1].removeprefix("PEAK "))
        assert peak_bytes == pytest.approx(measured, rel=0.05), name
