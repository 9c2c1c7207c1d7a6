"""Error texts of real runs, and what they are taken for."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import yaml

from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.commands.rehearse.trace import Tape, Usage
from gpuconf.commands.rehearse.verdict import survived_errors, verdict_of
from gpuconf.support.failures.failure import Failure, failure_of

KNOWN = yaml.safe_load(Path(__file__).with_name("failures.yaml").read_text(encoding="utf-8"))
TEXTS = KNOWN["texts"]
KERNEL_LOG = TEXTS["kernel log"]


def error(kind: str, message: str, steps: int = 0) -> dict[str, Any]:
    """An error as the agent notes it."""
    return {"type": kind, "message": message, "op": None, "steps": steps}


def test_an_operation_that_xla_does_not_have() -> None:
    """The operations are named, and how to do without XLA; it is not a lack of memory."""
    reason = "OpKernel for XLA_GPU_JIT devices compatible with node {{node m_1/A}}){{node m_1/A}}"
    message = (
        "Graph execution error:\n\nDetected at node StatefulPartitionedCall\n\n"
        "<stack traces unavailable>\nDetected unsupported operations when trying to compile graph "
        f"__inference_one_step_on_data_572[] on XLA_GPU_JIT: AsString (No registered 'AsString' "
        f"{reason}, EagerPyFunc (No registered 'EagerPyFunc' {reason}"
    )
    found = failure_of(error("InvalidArgumentError", message), "")
    assert found.kind == "script"
    assert found.message.startswith("XLA cannot compile AsString and EagerPyFunc for a GPU")
    uncaught = error("InvalidArgumentError", message)
    verdict = verdict_of(run(1, uncaught=uncaught))
    assert verdict.answer == "no verdict"
    assert "jit_compile=False" in str(verdict.hint)


def test_an_operation_in_a_graph() -> None:
    """Node, shape, type, bytes and device are read."""
    found = failure_of(error("ResourceExhaustedError", TEXTS["in a graph"]), "")
    assert found == Failure(
        "gpu_memory",
        "OOM when allocating tensor with shape[32,30,30,16] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        node="sequential_1/c1_1/Relu",
        shape=(32, 30, 30, 16),
        dtype="float32",
        asked_bytes=32 * 30 * 30 * 16 * 4,
        device="GPU:0",
        cause="oom-device-tensor",
    )


def test_an_eager_operation() -> None:
    """Two bytes for a half; the second device; the operation's kind for a node."""
    found = failure_of(error("ResourceExhaustedError", TEXTS["eager"]), "")
    assert (found.kind, found.node, found.device) == ("gpu_memory", "Fill", "GPU:1")
    assert found.asked_bytes == 25088 * 200 * 2


def test_a_copy_to_the_card() -> None:
    """An InternalError without a shape; the allocator's line in the log has the bytes."""
    found = failure_of(error("InternalError", TEXTS["whole array"]), TEXTS["allocator log"])
    assert (found.kind, found.node, found.asked_bytes) == ("gpu_memory", "_EagerConst", 2**31)


def test_the_kind_of_an_error() -> None:
    """The GPU's memory, the host's, a kernel, or none of our business."""
    for known in KNOWN["kinds"]:
        found = failure_of(error(known["type"], known["message"]), "")
        assert found.kind == known["kind"], known


def test_what_cannot_be_rehearsed_is_named() -> None:
    """The operation first; for NCCL what to write instead; for a bridge whose Python to name."""
    conv = error("UnimplementedError", "The Conv2D op currently only supports the NHWC tensor "
                 "format on the CPU.")  # fmt: skip
    verdict = verdict_of(run(1, uncaught=conv, **TF))
    assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)
    assert verdict.because.startswith("this program cannot be rehearsed: Conv2D: ")
    nccl = error("InternalError", "Graph execution error:\n\nNCCL: unhandled cuda error")
    assert "HierarchicalCopyAllReduce()" in verdict_of(run(1, uncaught=nccl, **TF)).because
    said = ("gpuconf: error: the kernel bridge of the simulated GPU was built for TensorFlow "
            "2.20.0, and this is 2.21.0\n  hint: …\n")  # fmt: skip
    verdict = verdict_of(run(1, stderr=said, **TF))
    assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)
    assert "/path/to/python" in (verdict.hint or "")


def test_the_last_line_is_not_of_tensorflows_log() -> None:
    """sys.exit(7) says nothing; what TensorFlow logged before it is not why."""
    said = (
        "no data in ./images\n"
        "2026-11-21 12:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN is on\n"
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "I0000 00:00:1795264800.123   5613 gpu_device.cc:2020] Created device\n"
    )
    assert failure_of(None, said).message == "no data in ./images"
    log = said.partition("\n")[2]
    because = verdict_of(run(7, stderr=log, **TF)).because
    assert because == "the script itself failed (exit code 7)"


def test_a_full_disk_is_told() -> None:
    """Whatever is missing then, it is not the program that lacks it."""
    for result in (run(0, steps=3, tape=None, **TF), run(0)):
        verdict = verdict_of(result._replace(unwritten="/small"))
        assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)
        assert verdict.because == "the rehearsal could not write to /small"
    for kind, message in (
        ("ResourceExhaustedError", "Unable to write PTX contents to: /small/tempfile-vm-1"),
        ("InternalError", "ptxas exited with non-zero error code 256, output: "
         "cat: /small/tempfile-vm-1: No space left on device"),
    ):  # fmt: skip
        said = f"Graph execution error:\n\n{message}\n\t [[{{{{node x}}}}]]"
        reported = run(1, steps=0, uncaught=error(kind, said), **TF)
        unreported = run(1, stderr=said, steps=0, **TF)  # there was no room for the report either
        for verdict in map(verdict_of, (reported, unreported)):
            assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)
            assert verdict.because == "the rehearsal could not write to /small"


def test_a_kernel_is_named() -> None:
    """The simulated GPU stops the program, so that only stderr tells."""
    found = failure_of(None, "much before\n" + KERNEL_LOG)
    assert (found.kind, found.node) == ("kernel", "FillPhiloxRandomKernelLaunch")


def tape(peak_bytes: int) -> Tape:
    """A trace of one GPU that had so much in use."""
    return Tape((Usage(0, 10**9, peak_bytes, 0, (), ()),))


TRAINED = tape(10**6)


def run(
    code: int | None, *, stderr: str = "", tape: Tape | None = TRAINED, **report: Any
) -> RunResult:
    """A run whose one process reported this; no report at all if there is none."""
    reports = ({"steps": 0, **report},) if report else ()
    return RunResult(code, reports, reports[0] if reports else {}, tape, (), stderr, 1.0)


OOM = error("ResourceExhaustedError", TEXTS["eager"])
TF: dict[str, Any] = {"tensorflow": "2.21.0"}


VERDICTS: list[tuple[RunResult, str, int]] = [
    (run(None, steps=3, ended="steps", **TF), "fits", 0),
    (run(0, steps=2, ended="exit", **TF), "fits", 0),
    (run(0, steps=3, ended="steps", **TF), "fits", 0),
    (run(None, steps=3, ended="steps", tape=Tape(), **TF), "no verdict", 4),
    # Scratch memory of a device that a training run on the CPU left alone.
    (run(None, steps=3, ended="steps", tape=tape(1280), model={"weights": [4096]}, **TF),
     "no verdict", 4),
    (run(None, steps=3, ended="steps", tape=tape(8192), model={"weights": [4096]}, **TF),
     "fits", 0),
    # os._exit(0): steps, and nobody knows of whose memory.
    (run(0, steps=3, tape=None, **TF), "no verdict", 4),
    (run(None, steps=3, ended="steps", tape=None, **TF), "no verdict", 4),
    (run(1, uncaught=OOM, tape=None, **TF), "does not fit", 1),
    (run(1, uncaught=OOM, **TF), "does not fit", 1),
    (run(9, uncaught=OOM, **TF), "does not fit", 1),
    # Caught by the script, which then gives up, whatever its exit code.
    (run(1, errors=[OOM], **TF), "does not fit", 1),
    (run(0, errors=[OOM], **TF), "does not fit", 1),
    # Caught, and trained on.
    (run(0, steps=2, errors=[OOM], ended="exit", **TF), "fits", 0),
    # A wrapper raises an error of its own from the out-of-memory.
    (run(1, errors=[OOM], uncaught=error("RuntimeError", "training failed"), **TF),
     "does not fit", 1),
    (run(1, errors=[error("profile", "no room")], ended="profile"), "does not fit", 1),
    (run(1, errors=[error("dependency", "No module named 'yaml'")], ended="dependency"),
     "no verdict", 4),
    (run(0, **TF), "no verdict", 4),
    (run(0, python="3.11.7"), "no verdict", 4),
    (run(0), "no verdict", 4),
    (run(1, uncaught=error("KeyError", "'x'"), **TF), "no verdict", 4),
    (run(3), "no verdict", 4),
    (run(7), "no verdict", 7),
    (run(1, uncaught=error("MemoryError", ""), **TF), "no verdict", 4),
    (run(-signal.SIGABRT, stderr=KERNEL_LOG, **TF), "no verdict", 4),
    (run(-signal.SIGKILL, **TF), "no verdict", 137),
    (run(-signal.SIGSEGV, **TF), "no verdict", 139),
]  # fmt: skip


def test_the_verdict() -> None:
    """0 and 1 are verdicts; what the script does to itself is never one of 0 to 3."""
    for result, answer, code in VERDICTS:
        verdict = verdict_of(result)
        assert (verdict.answer, verdict.exit_code) == (answer, code), result
        assert verdict.because, result
        assert not verdict.because.endswith("."), result


BACKEND = error("backend", "Keras uses the torch backend here")
REFUSED = error("RuntimeError", "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED")
TORCH_OOM = error("OutOfMemoryError", "CUDA out of memory. Tried to allocate 3.00 GiB.")


OTHERS: list[tuple[RunResult, int, str]] = [
    (run(1, errors=[BACKEND], ended="backend"), 4, "Keras uses the torch backend here, and reh"),
    (run(0, others=["PyTorch"]), 4, "the program uses PyTorch without TensorFlow"),
    (run(7, others=["JAX", "PyTorch"], uncaught=REFUSED), 7, "uses JAX and PyTorch without"),
    (run(-signal.SIGABRT, others=["PyTorch"], stderr=KERNEL_LOG), 4, "PyTorch without"),
    (run(1, others=["PyTorch"], uncaught=TORCH_OOM), 1, "out of GPU memory"),
    (run(0, others=["PyTorch"], **TF), 4, "without computing on the GPU"),
]


def test_other_frameworks_get_no_verdict() -> None:
    """What is not seen is said, with what there is instead; a refusal of memory counts."""
    for result, code, words in OTHERS:
        verdict = verdict_of(result)
        assert verdict.exit_code == code, words
        assert words in verdict.because
        assert code == 1 or verdict.hint, words


def test_survived_errors_are_counted() -> None:
    """Only those after which a step was done."""
    assert survived_errors(run(0, steps=2, errors=[OOM, {**OOM, "steps": 2}], **TF)) == 1
