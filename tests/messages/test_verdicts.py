"""Which of several things is the root, what a run survived, and what is only noise."""

from __future__ import annotations

import pytest

from gpuconf.diagnosis import explain

LADDER = "\n".join(
    f"2023-05-01 10:00:0{step}.1: E x/cuda_driver.cc:936] failed to allocate {size}M "
    f"({size * 1048576} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    for step, size in enumerate((8000, 7200, 6480))
)
OOM = (
    "W x/op_kernel.cc:1] OP_REQUIRES failed: OOM when allocating tensor with shape[64,128,128,64] "
    "and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)
RAISED = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 9, in <module>\n    model.fit(x, y)\n'
    "tensorflow.python.framework.errors_impl.{}"
)
# As Keras writes them, between an exception and its message.
PAGES = "Graph execution error:\n\nDetected at node x defined at (most recent call last):\n"
PAGES += '  File "keras/trainer.py", line 9, in fit\n\n' * 25
UNWRITTEN = "/tmp/t-1; No space left on device\n\tUnable to write PTX contents to: /tmp/t-1"
EPOCHS = "\n".join(f"Epoch {n}/9\n{n}/9 [====] - 1s 20ms/step - loss: 0.{n}" for n in range(1, 9))
DSO = (
    "W x/dso_loader.cc:64] Could not load dynamic library '{0}'; dlerror: {0}: cannot open shared"
    " object file: No such file or directory"
)
SKIPPING = (
    "W x/gpu_device.cc:1] Cannot dlopen some GPU libraries.\nSkipping registering GPU devices..."
)
BIG = "W x/cpu_allocator_impl.cc:83] Allocation of {} exceeds 10% of free system memory."
HANDLE = "E x/cuda_dnn.cc:455] could not create cudnn handle: CUDNN_STATUS_{}"
NO_ALGORITHM = RAISED.format("NotFoundError: No algorithm worked! [Op:Conv2D]")
VERSIONS = (
    "E x/cuda_dnn.cc:1] Loaded runtime CuDNN library: 8.4.0 but source was compiled with: 8.6.0."
)

CASES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "empty": ("", "not-a-gpu-problem", "not-gpu", ()),
    "healthy": (EPOCHS, "not-a-gpu-problem", "not-gpu", ()),
    "a ladder that ends well": (
        f"{LADDER}\n{EPOCHS}", "oom-device-startup", "warning-only", (),
    ),
    "a ladder, then a session": (
        f"{LADDER}\n<tensorflow.Session object at 0x1>", "oom-device-startup", "warning-only", (),
    ),
    "a ladder that is the last word": (LADDER, "oom-device-startup", "failure", ()),
    "a ladder, then no handle": (
        f"{LADDER}\n{HANDLE.format('INTERNAL_ERROR')}", "oom-device-startup", "failure",
        ("cudnn-internal",),
    ),
    "a ladder in mid-training": (
        f"{EPOCHS}\n{LADDER}\n{OOM}", "oom-device-tensor", "failure", (),
    ),
    "a tensor": (OOM, "oom-device-tensor", "failure", ()),
    "a tensor, caught, and on": (f"{OOM}\n{EPOCHS}", "oom-device-tensor", "warning-only", ()),
    "a tensor, and one redrawn bar": (
        f"{OOM}\n 2%|# | 80/4000 [00:36<29:33, 2.21it/s]", "oom-device-tensor", "failure", (),
    ),
    "a tensor, and figures of a summary": (
        RAISED.format("ResourceExhaustedError: failed to allocate memory [Op:Mul]")
        + "\nwandb: loss 0.25\nwandb: step 19\nwandb: accuracy 0.4",
        "oom-device-tensor", "failure", (),
    ),
    "no handle, then no algorithm": (
        f"{HANDLE.format('ALLOC_FAILED')}\n{NO_ALGORITHM}", "cudnn-handle-alloc", "failure",
        ("cudnn-internal",),
    ),
    "wrong cuDNN, then no algorithm": (
        f"{VERSIONS}\n{NO_ALGORITHM}", "driver-mismatch", "failure", ("cudnn-internal",),
    ),
    "no algorithm alone": (NO_ALGORITHM, "cudnn-internal", "failure", ()),
    "libraries missing": (
        f"{DSO.format('libcudnn.so.8')}\n{SKIPPING}\n{EPOCHS}", "missing-libs",
        "silent-cpu-fallback", (),
    ),
    "libraries missing, then cuDNN": (
        f"{DSO.format('libcudnn.so.8')}\n"
        + RAISED.format("UnimplementedError: DNN library is not found. [Op:Conv2D]"),
        "missing-libs", "failure", ("cudnn-internal",),
    ),
    "TensorRT missing": (
        f"{DSO.format('libnvinfer.so.7')}\n{EPOCHS}", "not-a-gpu-problem", "not-gpu", (),
    ),
    "libraries missing, and a bug": (
        f"{DSO.format('libcudnn.so.8')}\n{SKIPPING}\n" + RAISED.format("KeyError: 'label'"),
        "not-a-gpu-problem", "not-gpu", ("missing-libs",),
    ),
    "no driver": (
        f"{DSO.format('libcuda.so.1')}\nW x] failed call to cuInit: UNKNOWN ERROR (303)\n"
        f"{DSO.format('libcudart.so.11.0')}",
        "no-device", "silent-cpu-fallback", ("missing-libs",),
    ),
    "a big piece, and on": (
        f"{BIG.format(12 * 10**9)}\n{EPOCHS}", "not-a-gpu-problem", "not-gpu", (),
    ),
    "a big piece as the last word": (BIG.format(12 * 10**9), "host-oom", "failure", ()),
    "a small piece as the last word": (
        BIG.format(6 * 10**8), "not-a-gpu-problem", "not-gpu", (),
    ),
    "a big piece, then Killed": (
        f"{BIG.format(6 * 10**8)}\nKilled", "host-oom", "failure", (),
    ),
    "late, then the handle": (
        "Physical devices cannot be modified after being initialized\n"
        f"{HANDLE.format('ALLOC_FAILED')}",
        "late-config", "failure", ("cudnn-handle-alloc",),
    ),
    "late, told and on": (
        f"Physical devices cannot be modified after being initialized\n{EPOCHS}",
        "late-config", "warning-only", (),
    ),
    "JAX, with TensorFlow's allocator": (
        "W x/bfc_allocator.cc:482] Allocator (GPU_0_bfc) ran out of memory trying to allocate "
        "1.97GiB (rounded to 2110783744)requested by op\n"
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 2110783616 bytes.",
        "jax-oom", "failure", (),
    ),
    "XLA in TensorFlow": (
        RAISED.format("ResourceExhaustedError: Out of memory while trying to allocate 999 bytes."),
        "oom-device-tensor", "failure", (),
    ),
    "a full disk": (
        RAISED.format("ResourceExhaustedError: /tmp/cache_0.data; No space left on device"),
        "disk-full", "not-gpu", (),
    ),
    "a full disk, pages below its exception": (
        RAISED.format(f"ResourceExhaustedError: {PAGES}{UNWRITTEN}"), "disk-full", "not-gpu", (),
    ),
    "a full disk, by the assembler": (
        RAISED.format(f"InternalError: {PAGES}ptxas exited with non-zero error code 256, output: "
                      "cat: /tmp/tempfile-vm-1: No space left on device"),
        "disk-full", "not-gpu", (),
    ),
    "a full disk, then a full card": (
        f"{RAISED.format(f'ResourceExhaustedError: {PAGES}{UNWRITTEN}')}\n{OOM}",
        "disk-full", "not-gpu", ("oom-device-tensor",),
    ),
    "a full card, then a full disk": (
        f"{OOM}\n{RAISED.format(f'ResourceExhaustedError: {PAGES}{UNWRITTEN}')}",
        "oom-device-tensor", "failure", ("disk-full",),
    ),
    "a full card, pages below its exception": (
        RAISED.format(f"ResourceExhaustedError: {PAGES}out of room"),
        "oom-device-tensor", "failure", (),
    ),
    "too many files, pages below": (
        RAISED.format(f"ResourceExhaustedError: {PAGES}/data/a.tfrecord; Too many open files"),
        "not-a-gpu-problem", "not-gpu", (),
    ),
    "a full disk, and on": (
        f"W x/op_kernel.cc:1] OP_REQUIRES failed: RESOURCE_EXHAUSTED: a; No space left on device\n"
        f"{EPOCHS}", "disk-full", "warning-only", (),
    ),
    "a full disk, caught and printed": (
        "no checkpoint: [Errno 28] No space left on device\nTest accuracy 0.9",
        "disk-full", "warning-only", (),
    ),
    "a full disk, as a warning": (
        "UserWarning: [Errno 28] No space left on device: '/tmp/joblib'", "disk-full",
        "warning-only", (),
    ),
    "a full disk, raised": (
        "Traceback (most recent call last):\n    self.csv_file.flush()\n"
        "OSError: [Errno 28] No space left on device\nsee above", "disk-full", "not-gpu", (),
    ),
    "a full disk, then Killed": (
        "OSError: [Errno 28] No space left on device\nKilled", "disk-full", "not-gpu",
        ("host-oom",),
    ),
    "full shared memory": (
        "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'", "host-oom", "failure",
        (),
    ),
    "an array from NumPy": (
        RAISED.format("InternalError: Dst tensor is not initialized.").replace(
            "    model.fit(x, y)",
            "    model.fit(x, y)\n"
            '  File "/lib/python3.8/site-packages/tensorflow/constant_op.py", line 98, in'
            " convert_to_eager_tensor",
        ),
        "whole-array-copied", "failure", (),
    ),
    "a batch that is copied": (
        RAISED.format("InternalError: Dst tensor is not initialized. [[{{node _arg_x_0_1/_9}}]]"),
        "oom-device-tensor", "failure", (),
    ),
    "interrupted": (f"{EPOCHS}\nKeyboardInterrupt", "not-a-gpu-problem", "not-gpu", ()),
    "an Xid": (
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
        "E x/cuda_blas.cc:1] failed to run cuBLAS routine: CUBLAS_STATUS_EXECUTION_FAILED",
        "illegal-address", "failure", ("cublas-alloc",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    """Cause, severity, and what stands beside the cause."""
    text, cause, severity, also = CASES[name]
    found = explain(text)
    assert (found.cause, found.severity) == (cause, severity)
    assert set(also) <= set(found.also), found.also


def test_the_lines_that_show_it() -> None:
    """Evidence has the cause's lines, consequences the others', notes what is harmless."""
    noise = "I x/gpu_executor.cc:1] successful NUMA node read from SysFS had negative value (-1)"
    found = explain(f"{noise}\n{noise}\n{HANDLE.format('ALLOC_FAILED')}\n{NO_ALGORITHM}")
    assert [each.line for each in found.evidence] == [3]
    assert [(each.line, each.cause) for each in found.consequences] == [(7, "cudnn-internal")]
    assert [(each.line, each.lines) for each in found.notes] == [(1, 2)]


def test_an_exception_is_read_with_its_cause() -> None:
    """What an exception came of is part of it; another one is no matter of a GPU."""

    class ResourceExhaustedError(Exception):
        pass

    try:
        try:
            raise ResourceExhaustedError(OOM)
        except ResourceExhaustedError as first:
            raise RuntimeError("training failed") from first
    except RuntimeError as error:
        found = explain(error)
    assert found.cause == "oom-device-tensor"
    assert found.facts.user_code is not None
    assert found.facts.user_code.file.endswith("test_verdicts.py")
    assert explain(ValueError("shapes do not match")).cause == "not-a-gpu-problem"


@pytest.mark.parametrize("given", [None, 7, ["a log"]])
def test_what_is_no_log(given: object) -> None:
    """Anything but text, bytes and exceptions is refused by type."""
    with pytest.raises(TypeError, match="takes an exception or a log's text"):
        explain(given)  # type: ignore[arg-type]
