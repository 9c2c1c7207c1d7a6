"""What is proposed is for the framework, the system and the fault that the log shows."""

from __future__ import annotations

import pytest

from gpuconf.diagnosis import Diagnosis, explain

FRAMES = {
    "torch": '  File "/lib/python3.11/site-packages/torch/cuda/a.py", line 9, in f\n    g()\n',
    "jax": '  File "/lib/python3.11/site-packages/jax/_src/api.py", line 9, in f\n    g()\n',
    "tensorflow": '  File "/lib/python3.11/site-packages/tensorflow/a.py", line 9, in f\n    g()\n',
}


def first(found: Diagnosis) -> str:
    """The first change, with what is to be pasted."""
    return f"{found.proposals[0].title}\n{found.proposals[0].paste}"


def everything(found: Diagnosis) -> str:
    """All changes."""
    return "\n".join(f"{each.title}\n{each.paste}" for each in found.proposals)


@pytest.mark.parametrize("framework", FRAMES)
@pytest.mark.parametrize(
    "message",
    [
        "ImportError: libcublas.so.12: cannot open shared object file: No such file or directory",
        "CUDA error: no kernel image is available for execution on the device",
        "could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
        "No PTX compilation provider is available. Neither ptxas/nvlink nor nvjtlink is available.",
    ],
)
def test_no_other_frameworks_medicine(framework: str, message: str) -> None:
    """Who uses PyTorch or JAX is not told to install TensorFlow, nor to set its limits."""
    found = explain(f"Traceback (most recent call last):\n{FRAMES[framework]}{message}")
    assert found.facts.framework == framework
    told = everything(found).lower()
    for other in ("tensorflow", "jax", "torch"):
        if other not in (framework, "tensorflow"):
            assert other not in told
    assert ("tensorflow" in told or "keras" in told) == (framework == "tensorflow")


CASES = {
    "/pytorch/aten/Loss.cu:242: nll: block: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
    "RuntimeError: CUDA error: device-side assert triggered": "out of range",
    "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.": "Xid 79",
    "NVRM: Xid (PCI:0000:01:00): 31, Ch 00000013": "Xid 31",
    "docker: could not select device driver with capabilities: [[gpu]].": "Container Toolkit",
    "RuntimeError: CUDA error: invalid device ordinal": "how many cards",
    "Failed to initialize NVML: Driver/library version mismatch": "restart the machine",
    "failed call to cuInit: CUDA_ERROR_NO_DEVICE\nCUDA_VISIBLE_DEVICES is set to -1": (
        "unset CUDA_VISIBLE_DEVICES"
    ),
    "RuntimeError: DataLoader worker (pid 4) is killed by signal: Bus error. It is possible that "
    "dataloader's workers are out of shared memory.": "--shm-size",
    "OSError: [WinError 1455] The paging file is too small": "paging file",
    "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. "
    "Falling back to cpu.": "jax[cuda12]",
    "W x] Could not load dynamic library 'cudart64_110.dll'; dlerror: cudart64_110.dll not found": (
        "WSL2"
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_the_first_change(text: str) -> None:
    """The one that mends this."""
    assert CASES[text] in first(explain(text))


CREATED = (
    "I x/gpu_device.cc:1] Created device /job:x/device:GPU:0 with 10240 MB memory:  -> device: 0, "
    "name: NVIDIA GeForce RTX 3060, compute capability: 8.6\n"
)
FIT = 'Traceback:\n  File "t.py", line 3, in <module>\n    model.{}\n'
OOM = (
    "ResourceExhaustedError: OOM when allocating tensor with shape{} and type float on "
    "/job:x/device:GPU:0 by allocator GPU_0_bfc"
)


def test_a_known_limit_takes_no_batch_away() -> None:
    """Where the limit is known and what was in use is not, it is half, as without the limit."""
    log = FIT.format("fit(x, y, batch_size=64)") + OOM.format("[64,512,512,64]")
    for text in (log, CREATED + log):
        assert "32 instead of 64" in explain(text).proposals[1].title
    whole = FIT.format("evaluate(x, y)") + OOM.format("[10000,32,28,28]")
    assert "evaluate in batches of at most" in explain(CREATED + whole).proposals[1].title


def test_pytorchs_batch_by_its_own_figures() -> None:
    """What is not free is in use, and grows with the batch."""
    log = (
        '  File "t.py", line 3, in <module>\n    train(model, batch_size=16)\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total "
        "capacity of 24.00 GiB of which 2.00 GiB is free."
    )
    found = explain(log)
    assert found.proposals[0].title == "a batch of 8 instead of 16"
    assert "16 × 24576 MiB / (22528 MiB in use + 4096 MiB asked) = 14" in found.proposals[0].reason


def test_weights_want_a_smaller_layer() -> None:
    """No batch makes them smaller."""
    weights = explain(OOM.format("[802816,4096]") + " [Op:StatelessRandomUniformV2]")
    assert "a smaller layer" in first(weights)
    assert "batch_size" not in everything(weights)


def test_where_others_hold_the_card_they_come_first() -> None:
    """And no share of the card is proposed that is not free."""
    smi = (
        "| N/A   45C    P8    10W /  N/A |  23800MiB / 24576MiB |      0%      Default |\n"
        "|    0   N/A  N/A      9876      C   python                          23000MiB |\n"
    )
    found = explain(smi + OOM.format("[32,64,224,224]"))
    assert "what else is using the card" in first(found)
    assert "per_process_gpu_memory_fraction" not in everything(found)
    handle = explain(smi + "could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED")
    assert "what else is using the card" in first(handle)


def test_the_rows_of_one_refusal() -> None:
    """Tensor, bytes and operation are of the refusal that was last."""
    log = "\n".join(
        f"Allocator (GPU_0_bfc) ran out of memory trying to allocate {size}MiB (rounded to "
        f"{size * 2**20})requested by op {op}\nOP_REQUIRES failed: OOM when allocating tensor with "
        f"shape[{rows},1024,256] and type float on /job:x/device:GPU:0 by allocator GPU_0_bfc"
        for size, op, rows in ((256, "first/Relu", 256), (64, "second/Relu", 64))
    )
    request = explain(log).facts.request
    assert (request.tensor and request.tensor.shape, request.node) == (
        (64, 1024, 256),
        "second/Relu",
    )
