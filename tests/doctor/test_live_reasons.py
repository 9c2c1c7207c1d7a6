"""A step's exception and TensorFlow's log -> what it comes to, and what to paste."""

from __future__ import annotations

import pytest

from gpuconf.doctor.live.failed_step import FailedStep
from gpuconf.doctor.live.reasons import reason_of, reason_of_unseen
from gpuconf.doctor.measured import CardMemory, StepError
from gpuconf.units import GIB, MIB
from tests.doctor.live_records import card, passed, record
from tests.doctor.shell_fixes import can_be_pasted

_VERSIONS = (
    "E0430 22:32:43.417007 2493694 cuda_dnn.cc:454] Loaded runtime CuDNN library: 9.1.0 but source "
    "was compiled with: 9.8.0. CuDNN library needs to have matching major version"
)
_HANDLE = "E tensorflow/stream_executor/cuda/cuda_dnn.cc:455] Could not create cudnn handle: "
_LADDER = "failed to allocate 9.90GiB from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
_OOM = "OOM when allocating tensor with shape[16,8,14,14] and type float on GPU:0"


# step, exception, log, words of the summary, words of the fix
@pytest.mark.parametrize(
    ("step", "error", "log", "summary", "fix"),
    [
        # TF 2.21 on the simulated card, and TF 2.15's StreamExecutor
        ("context", "cudaSetDevice() on GPU:0 failed. Status: out of memory", "", "full",
         "nvidia-smi"),
        ("context", f"failed to create context: {_LADDER}", "", "no CUDA context", "pid 4242"),
        ("convolution", "DNN library initialization failed. Look at the errors above",
         _HANDLE + "CUDNN_STATUS_ALLOC_FAILED",
         "no memory is left for cuDNN in the convolution (CUDNN_STATUS_ALLOC_FAILED)",
         "context: 2GiB"),
        ("convolution", "DNN library initialization failed. Look at the errors above",
         _VERSIONS, "cuDNN 9.1.0 was loaded, and this TensorFlow was built with 9.8.0",
         "pip install 'tensorflow[and-cuda]'"),
        ("convolution", "Failed to get convolution algorithm. This is probably because cuDNN "
         "failed to initialize", _HANDLE + "CUDNN_STATUS_INTERNAL_ERROR",
         "cuDNN does not work (CUDNN_STATUS_INTERNAL_ERROR)", "LD_LIBRARY_PATH"),
        ("convolution", "No algorithm worked!  Error messages: CUDNN failed to allocate the "
         "scratch space", "", "cuDNN does not work", "pip install"),
        ("convolution", "CUDNN_STATUS_ALLOC_FAILED", "", "no memory is left for cuDNN",
         "context"),
        ("matmul", "Attempting to perform BLAS operation using StreamExecutor without BLAS support",
         "", "cuBLAS's handle", "context"),
        ("matmul", "something else", "failed to create cublas handle: cublas error",
         "cuBLAS's handle", "context"),
        ("matmul", "Blas xGEMM launch failed : a.shape=[1,512,512]", "", "cuBLAS", "context"),
        ("fit", _OOM, "", "out of memory in the fit", "nvidia-smi"),
        ("fit", "Failed copying input tensor: Dst tensor is not initialized.", "", "out of memory",
         "nvidia-smi"),
        ("fit", "libdevice not found at ./libdevice.10.bc [Op:__inference_one_step]", "",
         "XLA", "xla_gpu_cuda_data_dir"),
        ("matmul", "CUDA error: no kernel image is available for execution on the device", "",
         "compute capability", "--upgrade"),
        ("start", "CUDA driver version is insufficient for CUDA runtime version", "", "driver",
         "driver_version"),
        ("context", "CUDA_ERROR_DEVICE_UNAVAILABLE: device busy", "", "exclusive",
         "--compute-mode=DEFAULT"),
        ("fit", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", "",
         "the card failed in the fit", "dmesg"),
        ("context", "uncorrectable ECC error encountered", "", "the card failed", "dmesg"),
        # The log's retries mean nothing where the exception tells.
        ("fit", "libdevice not found at ./libdevice.10.bc", _LADDER, "XLA", "xla_gpu"),
        ("fit", "something new", "", "the fit step failed: InternalError: something new",
         "-m gpuconf.doctor.live.program"),
    ],
)  # fmt: skip
def test_known_words(step: str, error: str, log: str, summary: str, fix: str) -> None:
    """Each is told by its cause, and has a fix that fits it."""
    made = record(*([passed("context", 0)] if step != "context" else []))
    reason = reason_of(FailedStep(step, StepError("InternalError", error), made, log, card()))
    assert summary in reason.summary
    assert fix in reason.fix
    assert can_be_pasted(reason.fix)
    assert not reason.summary.endswith(".")


def test_a_refusal_speaks_for_itself() -> None:
    """gpuconf's own message is the summary and the lines, with its hint; the fix is a command."""
    error = StepError(
        "ShortageError", "profile x: not enough\n  0.7 × 8\n  held by pid 3", "stop 3"
    )
    reason = reason_of(FailedStep("start", error, record()))
    assert reason.summary == "profile x: not enough"
    assert reason.detail == ("0.7 × 8", "held by pid 3", "hint: stop 3")
    assert reason.fix.startswith("gpuconf ps   #")
    assert can_be_pasted(reason.fix)


def test_too_late_asks_who_imports_tensorflow() -> None:
    """The hint for scripts would send a person to a first line that is there already."""
    error = StepError("TooLateError", "TensorFlow has already made its devices", "make it first")
    reason = reason_of(FailedStep("start", error, record()))
    assert "importtime" in reason.fix
    assert can_be_pasted(reason.fix)
    assert "make it first" not in reason.detail


def test_wrong_numbers() -> None:
    """They are the card's fault, and the numbers are told."""
    error = StepError("WrongResultError", "3 of 9 numbers are wrong")
    reason = reason_of(FailedStep("matmul", error, record()))
    assert "wrong numbers" in reason.summary
    assert "3 of 9 numbers are wrong" in reason.detail


@pytest.mark.parametrize("step", ["start", "fit"])
def test_an_import_that_fails(step: str) -> None:
    """TensorFlow in the first step, Keras in the last; the module is named."""
    error = StepError("ModuleNotFoundError", "No module named 'absl'")
    reason = reason_of(FailedStep(step, error, record()))
    assert ("Keras" if step == "fit" else "TensorFlow") in reason.summary
    assert "absl" in reason.summary
    assert "pip" in reason.fix


def test_an_internal_error_of_cudnn_on_a_tight_card_is_memory() -> None:
    """CUDNN_STATUS_INTERNAL_ERROR with little left is the same failure by another name."""
    tight = passed("convolution", 0)._replace(before=(CardMemory(free_bytes=300 * MIB),))
    error = StepError("UnknownError", "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR")
    reason = reason_of(FailedStep("convolution", error, record(tight), card=card()))
    assert "no memory is left" in reason.summary


def test_a_small_card_gets_the_small_profile() -> None:
    """4 GiB or less: small-laptop bounds what cuDNN may ask for."""
    small = card()._replace(total_bytes=4 * GIB)
    error = StepError("InternalError", "CUDNN_STATUS_ALLOC_FAILED")
    assert "small-laptop" in reason_of(FailedStep("convolution", error, record(), card=small)).fix


def test_a_small_limit_is_not_the_cards_fault() -> None:
    """Out of memory under a limit far below what was free: the profile allows too little."""
    error = StepError("ResourceExhaustedError", _OOM)
    reason = reason_of(FailedStep("fit", error, record(), card=card(limit=100 * MIB)))
    assert "the profile allows too little" in reason.summary
    assert reason.fix.startswith("gpuconf plan shared-desktop")


def test_the_telling_line_of_a_graphs_error() -> None:
    """TensorFlow's own first line says nothing."""
    error = StepError("ResourceExhaustedError", f"Graph execution error:\n\nDetected at\n{_OOM}")
    reason = reason_of(FailedStep("fit", error, record(), card=card()))
    assert reason.detail[0] == f"ResourceExhaustedError: {_OOM}"


def test_a_roomier_card_is_named() -> None:
    """The fix for a full card is another one, where there is one."""
    error = StepError("InternalError", "cudaSetDevice() on GPU:0 failed. Status: out of memory")
    full, other = card(0, free=200 * MIB), card(1)
    reason = reason_of(FailedStep("context", error, record(), card=full, others=(other,)))
    assert f"CUDA_VISIBLE_DEVICES={other.uuid}" in reason.fix


def test_what_tensorrt_misses_is_no_reason() -> None:
    """TensorFlow misses its libraries at many a start; beside others they are not named."""
    warned = "Could not load dynamic library 'lib{0}'; dlerror: lib{0}: cannot open shared object"
    log = "\n".join(warned.format(name) for name in ("cudnn.so.8", "nvinfer.so.7"))
    assert reason_of_unseen(record(), log).summary == "TensorFlow cannot load libcudnn.so.8"
    alone = reason_of_unseen(record(), warned.format("nvinfer.so.7"))
    assert "does not say why" in alone.summary
