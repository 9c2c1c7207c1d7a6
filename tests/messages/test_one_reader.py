"""`explain`, `doctor --probe` and `rehearse` find one cause for one error text."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gpuconf.diagnosis import explain
from gpuconf.doctor.live.failed_step import FailedStep
from gpuconf.doctor.live.reasons import reason_of
from gpuconf.doctor.live.record import LiveRecord
from gpuconf.doctor.measured import StepError
from gpuconf.messages.failure import failure_of

HANDLE = "E tensorflow/stream_executor/cuda/cuda_dnn.cc:455] Could not create cudnn handle: "
VERSIONS = (
    "E0430 22:32:43.417007 2493694 cuda_dnn.cc:454] Loaded runtime CuDNN library: 9.1.0 but source "
    "was compiled with: 9.8.0. CuDNN library needs to have matching major version"
)
LADDER = "failed to allocate 9.90GiB from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
ON_GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
GRAPH = (
    "Graph execution error:\n\nDetected at node m/c1/Relu defined at (most recent call last):\n"
    f"OOM when allocating tensor with shape[32,30,30,16] and type float on {ON_GPU} by allocator "
    "GPU_0_bfc\n\t [[{{node m/c1/Relu}}]] [Op:__inference_multi_step_on_iterator_1986]"
)
NO_DNN = "DNN library initialization failed. Look at the errors above"


class Case(NamedTuple):
    """An exception's class and text, the log of its process, and the cause."""

    cause: str
    message: str
    kind: str = "InternalError"
    log: str = ""


CASES = [
    Case("oom-device-startup", "cudaSetDevice() on GPU:0 failed. Status: out of memory"),
    Case("oom-device-startup", f"failed to create context: {LADDER}"),
    Case("oom-device-startup", "failed to allocate 9.9G: CUDA_ERROR_OUT_OF_MEMORY"),
    Case("oom-device-tensor", GRAPH, "ResourceExhaustedError"),
    Case("oom-device-tensor", "Out of memory while trying to allocate 4194304 bytes."),
    Case("oom-device-tensor", "Failed to allocate device memory for the input."),
    Case("whole-array-copied", "Failed copying input tensor: Dst tensor is not initialized."),
    Case("cudnn-handle-alloc", NO_DNN, log=f"{HANDLE}CUDNN_STATUS_ALLOC_FAILED"),
    Case("cudnn-handle-alloc", "CUDNN_STATUS_ALLOC_FAILED", "UnknownError"),
    Case("driver-mismatch", NO_DNN, log=VERSIONS),
    Case("cudnn-internal", "Failed to get convolution algorithm. This is probably because cuDNN "
         "failed to initialize", log=f"{HANDLE}CUDNN_STATUS_INTERNAL_ERROR"),
    Case("cudnn-internal", "No algorithm worked!  Error messages: CUDNN failed to allocate the "
         "scratch space"),
    Case("cudnn-internal", "DNN library initialization failed.", "FailedPreconditionError"),
    Case("cublas-alloc", "Attempting to perform BLAS operation using StreamExecutor without BLAS "
         "support"),
    Case("cublas-alloc", "Blas xGEMM launch failed : a.shape=[1,512,512]"),
    Case("xla-toolchain", "libdevice not found at ./libdevice.10.bc [Op:__inference_one_step]"),
    Case("compute-capability", "CUDA error: no kernel image is available for execution on the "
         "device"),
    Case("compute-capability", "Ignoring visible gpu device (device: 0, name: X) with Cuda compute "
         "capability 3.0. The minimum required Cuda capability is 3.5."),
    Case("driver-mismatch", "CUDA driver version is insufficient for CUDA runtime version"),
    Case("no-device", "CUDA_ERROR_DEVICE_UNAVAILABLE: device busy"),
    Case("no-device", "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error"),
    Case("missing-libs", "Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: "
         "cannot open shared object file"),
    Case("illegal-address", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"),
    Case("illegal-address", "uncorrectable ECC error encountered"),
    Case("gpu-only-operation", "The Conv2D op currently only supports the NHWC tensor format on "
         "the CPU. The op was given the format: NCHW [Op:Conv2D]", "UnimplementedError"),
    Case("gpu-only-operation", "Default MaxPoolingOp only supports NHWC on device type CPU",
         "InvalidArgumentError"),
    Case("gpu-only-operation", "gpuconf: a simulated card cannot compute CTCLossV2 (node ctc): "
         "TensorFlow has a CUDA kernel for it and no CPU kernel", "UnimplementedError"),
    Case("host-oom", "Unable to allocate 8. GiB for an array", "MemoryError"),
    Case("host-oom", "MemoryError: in a generator\nTraceback", "ResourceExhaustedError"),
    Case("host-oom", "OOM when allocating tensor with shape[9] and type float on /device:CPU:0 by "
         "allocator cpu\n", "ResourceExhaustedError"),
    Case("disk-full", "[Errno 28] No space left on device", "OSError"),
    Case("disk-full", "/data/a.data; No space left on device [Op:SaveV2]",
         "ResourceExhaustedError"),
    Case("disk-full", "Graph execution error:\n\nDetected at node x\n\n/tmp/t; No space left on "
         "device\n\tUnable to write PTX contents to: /tmp/t", "ResourceExhaustedError"),
    Case("not-a-gpu-problem", "something new"),
    Case("not-a-gpu-problem", "a memory of the script's own", "ValueError"),
    Case("not-a-gpu-problem", "a layer that only supports two inputs", "ValueError"),
    Case("not-a-gpu-problem", "too many open files", "ResourceExhaustedError"),
]  # fmt: skip


def by_explain(case: Case) -> str:
    """The cause in the whole log."""
    return explain(f"{case.log}\n{case.kind}: {case.message}").cause


def by_doctor(case: Case) -> str:
    """The cause of a step that raised this."""
    error = StepError(case.kind, case.message)
    return reason_of(FailedStep("fit", error, LiveRecord(), case.log)).cause


def by_rehearse(case: Case) -> str:
    """The cause of a program that ended so."""
    return failure_of({"type": case.kind, "message": case.message}, case.log).cause


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.cause}-{case.message[:30]}")
def test_one_cause(case: Case) -> None:
    """All three name the cause, and it is the same."""
    assert (by_explain(case), by_doctor(case), by_rehearse(case)) == (case.cause,) * 3


def test_who_knows_the_exception_knows_more() -> None:
    """A log alone may have retries that look like the root; these two saw the exception."""
    case = Case("xla-toolchain", "libdevice not found at ./libdevice.10.bc", log=LADDER)
    assert by_explain(case) == "oom-device-startup"
    assert (by_doctor(case), by_rehearse(case)) == ("xla-toolchain",) * 2
    assert explain(f"{case.kind}: {case.message}").cause == "xla-toolchain"


def test_who_knows_the_program_knows_more() -> None:
    """The doctor's child does nothing of its own; a script may survive what its log has."""
    case = Case(
        "cublas-alloc", "something else", log="failed to create cublas handle: cublas error"
    )
    assert (by_explain(case), by_doctor(case)) == ("cublas-alloc",) * 2
    assert by_rehearse(case) == "not-a-gpu-problem"


def test_who_knows_the_card_knows_more() -> None:
    """A simulated card has no cuDNN: its failure is no verdict there; a lack of memory is."""
    kinds = {
        text: failure_of({"type": "InternalError", "message": text}, "").kind
        for text in ("DNN library initialization failed.", "CUDNN_STATUS_ALLOC_FAILED")
    }
    assert list(kinds.values()) == ["kernel", "gpu_memory"]


@pytest.mark.parametrize("short", ["CUDA", "(0)", "fit", "memory"])
def test_the_headline_is_the_line_of_the_cause(short: str) -> None:
    """A line above it that the line of the cause happens to contain does not stand for it."""
    line = "CUDA out of memory in fit (0). Tried to allocate 20.00 MiB."
    for whole in (line, f"{line} {'x' * 1500}"):
        failure = failure_of({"type": "RuntimeError", "message": f"{short}\n{whole}"}, "")
        assert failure.message == f"RuntimeError: {whole}"


def test_an_error_without_a_message_is_its_class() -> None:
    """Python's MemoryError says nothing; nor does its line."""
    assert failure_of({"type": "MemoryError", "message": ""}, "").message == "MemoryError"
