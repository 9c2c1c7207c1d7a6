"""What comes first is decided by figures, versions and the program of the log.

The lines are written for these tests, in the shape of the programs' messages.
"""

from __future__ import annotations

import pytest

from gpuconf.diagnosis import Diagnosis, explain

OTHERS, BATCH = "see what else", "half the batch"


def torch(text: str) -> str:
    """A message of PyTorch below 2.1: GiB asked, in all, allocated, free, reserved."""
    asked, total, held, free, reserved = text.split()
    return (
        f"RuntimeError: CUDA out of memory. Tried to allocate {asked} GiB (GPU 0; {total} GiB total"
        f" capacity; {held} GiB already allocated; {free} GiB free; {reserved} GiB reserved in "
        "total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb "
        "to avoid fragmentation."
    )


def newer(text: str, more: str = "") -> str:
    """A message of PyTorch 2.1 and newer: GiB asked, in all, free, allocated, unallocated."""
    asked, total, free, held, unused = text.split()
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked} GiB. GPU 0 has a "
        f"total capacity of {total} GiB of which {free} GiB is free. {more}Of the allocated memory "
        f"{held} GiB is allocated by PyTorch, and {unused} GiB is reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def frame(file: str, code: str, function: str = "run") -> str:
    """A frame of a traceback."""
    return f'  File "{file}", line 7, in {function}\n    {code}\n'


TRAINS = frame("/home/a/train.py", "loss.backward()")
GENERATES = frame("/home/a/chat.py", "model.generate(**inputs)")
NO_GRAD = frame("/x/site-packages/torch/utils/_contextlib.py", "return func()", "decorate_context")
LOADS = frame("/home/a/chat.py", "model.to(device)", "load_model")
XLA = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
REFUSED = (
    "ResourceExhaustedError: OOM when allocating tensor with shape{} and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)
DSO = "W x/dso_loader.cc:1] Could not load dynamic library '{0}'; dlerror: {1}: cannot open shared"

OLD_LIBRARY = DSO.format("libcudart.so.10.0", "libcudart.so.10.0")

FIRST: dict[str, tuple[str, str]] = {
    "torch, the program fills the card": (TRAINS + torch("1.0 11.0 9.2 0.5 9.5"), BATCH),
    "torch, others fill the card": (torch("0.5 11.0 2.6 0.02 2.8"), OTHERS),
    "torch, others fill it, and say so": (
        newer("0.3 22 0.1 7.0 0.2", "Including non-PyTorch memory, this process has 7.6 GiB memory "
              "in use. Process 9 has 14.0 GiB memory in use. "), OTHERS,
    ),
    "torch, its own number in a container": (
        newer("30 80 20 12 44", "Process 77 has 57.00 GiB memory in use. "), "grow its segments",
    ),
    "torch, fragments before 2.1": (torch("2.0 24.0 12.0 0.4 22.0"), "splitting large blocks"),
    "torch, too little even in one piece": (newer("23 32 10 9 12"), BATCH),
    "torch, refused though free": (newer("0.1 6 1.6 3.2 0.1"), OTHERS),
    "torch, a limit": (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 24.00 GiB total "
        "capacity; 4.20 GiB already allocated; 18.00 GiB free; 4.80 GiB allowed; 4.50 GiB reserved "
        "in total by PyTorch)", "raise the limit",
    ),
    "torch, generation": (GENERATES + torch("0.1 8 7.3 0.0 7.4"), "without gradients"),
    "torch, generation without gradients": (
        GENERATES + NO_GRAD + torch("0.1 8 7.3 0.0 7.4"), "a smaller input",
    ),
    "torch, weights that do not fit": (LOADS + torch("0.1 8 7.3 0.0 7.4"), "half precision"),
    "torch, no figures": ("torch.cuda.OutOfMemoryError", BATCH),
    "jax, a large program": (XLA + "allocate 9663676416 bytes.", BATCH),
    "jax, a full card": (XLA + "allocate 4194304 bytes.", OTHERS),
    "jax, a share that is set": (
        f"export XLA_PYTHON_CLIENT_MEM_FRACTION=.3\n{XLA}allocate 9663676416 bytes.", "JAX's share",
    ),
    "tensorflow, little was asked": (REFUSED.format("[50,20,1,200]"), OTHERS),
    "tensorflow, a table of words": (REFUSED.format("[400000,128]"), "a smaller layer"),
    "tensorflow, one large tensor": (
        "I tensorflow/core/common_runtime/bfc_allocator.cc:1] Bin for 5.00GiB was 256.00MiB, Chunk "
        "State: \n  Size: 4.00GiB | Requested Size: 0B | in_use: 0", "the one large tensor",
    ),
    "tensorflow, a limit far below the card": (
        "name: GeForce, totalMemory: 24.00GiB freeMemory: 23.50GiB\nCreated TensorFlow device "
        "(/job:localhost/device:GPU:0 with 2048 MB memory)\n" + REFUSED.format("[64,128,128,64]"),
        "allow TensorFlow more",
    ),
    "cupy's pool": (
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 600,000,000 bytes (allocated "
        "so far: 500,000,000 bytes, limit set to: 1,000,000,000 bytes).", "CuPy's pool",
    ),
    "xgboost": (
        "xgboost.core.XGBoostError: [1] std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
        OTHERS,
    ),
    "a card with failing memory": (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered", "have the card checked",
    ),
    "libraries of an old build": (OLD_LIBRARY, "CUDA 10.0"),
    "a library of another CUDA": (
        DSO.format("libcusolver.so.11", "libnvJitLink.so.12"), "libraries from one CUDA",
    ),
    "a setting too late, in an old notebook": (
        "<ipython-input-4-0123456789ab> in <module>\n----> 3 tf.config.experimental."
        "set_virtual_device_configuration(gpu, limits)\n~/lib/site-packages/tensorflow_core/python/"
        "eager/context.py in f(x)\nRuntimeError: Virtual devices cannot be modified after being "
        "initialized", "restart the kernel",
    ),
    "cards that are hidden": (
        "CUDA_VISIBLE_DEVICES=$1 python train.py\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE",
        "unset CUDA_VISIBLE_DEVICES",
    ),
    "an array without figures": (
        frame("a.py", "x = np.zeros((n, 500, 500))") + "MemoryError", "a smaller dtype",
    ),
    "word vectors": ("torchtext: loading\nKilled", "see what uses the memory"),
    "a handle of PyTorch's": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        OTHERS,
    ),
    "CUDA itself refuses PyTorch": ("RuntimeError: CUDA error: out of memory", OTHERS),
    "JAX's share is refused": (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: failed\nE cuda_driver.cc:1] "
        "failed to allocate 17.84GiB (19159842816 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY",
        OTHERS,
    ),
    "a file that was saved on a GPU": (
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda."
        "is_available() is False.", "onto the CPU",
    ),
    "libraries of an old build on Windows": (
        "W tensorflow/x.cc:1] Could not load dynamic library 'cudart64_101.dll'; dlerror: "
        "cudart64_101.dll not found", "CUDA 10.1",
    ),
    "a copy that found no room": (
        "InternalError: Dst tensor is not initialized.\n\t [[Node: save/Restore]]", OTHERS,
    ),
    "one picture at a time": (REFUSED.format("[1,64,4096,4096]"), "a smaller input"),
    "an exception without figures": (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError:", BATCH,
    ),
    "a filter's gradient that holds a feature map": (
        f"Detected at node g/Conv2DBackpropFilter defined at\n{REFUSED.format('[32,64,200,200]')}",
        "batch",
    ),
    "a server's cache": ("ValueError: No available memory for the cache blocks.", "context"),
    "a step that XLA compiled": (
        "ResourceExhaustedError: Out of memory while trying to allocate 4294967296 bytes. "
        "[Op:__inference_one_step_on_data_1]", BATCH,
    ),
    "growth is set already": (
        "config.gpu_options.allow_growth = True\ncould not create cudnn handle: "
        "CUDNN_STATUS_ALLOC_FAILED", OTHERS,
    ),
    "a card that others fill, and the run goes on": (
        "name: GeForce\nTotal memory: 7.92GiB\nFree memory: 190.31MiB\nE cuda_driver.cc:1] failed "
        "to allocate 190.31M (199557120 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY\ndone", OTHERS,
    ),
}  # fmt: skip


def everything(found: Diagnosis) -> str:
    """All changes."""
    return "\n".join(f"{each.title}\n{each.paste}" for each in found.proposals)


@pytest.mark.parametrize("name", FIRST)
def test_what_comes_first(name: str) -> None:
    """The change that an expert would name first for such a message."""
    text, title = FIRST[name]
    assert title in explain(text).proposals[0].title


def test_no_setting_that_a_version_lacks_or_that_is_set() -> None:
    """expandable_segments is of PyTorch 2.1; what the log shows as set is not proposed again."""
    fragments = newer("30 80 20 12 44")
    assert "expandable_segments" in everything(explain(fragments))
    assert "expandable_segments" not in everything(explain(torch("2.0 24.0 12.0 0.4 22.0")))
    is_set = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
    assert "expandable_segments" not in everything(explain(is_set + fragments))
    split = "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64\n"
    assert "max_split" not in everything(explain(split + torch("2.0 24.0 12.0 0.4 22.0")))
    off = f"XLA_PYTHON_CLIENT_PREALLOCATE=false\n{XLA}allocate 4194304 bytes."
    assert "PREALLOCATE" not in everything(explain(off))


def test_no_advice_for_another_program() -> None:
    """A graph of TensorFlow 1 is not advised Keras's calls, nor one that infers to accumulate."""
    refused = REFUSED.format("[100,64,128,128]")
    graph = explain(frame("stylegan/train.py", "tflib.run(ops)") + refused)
    old = explain(f"2019-03-01 10:00:00.1: W tensorflow/x.cc:1] {refused}")
    for found in (graph, old):
        assert [each.title for each in found.proposals] == ["a batch of 50 instead of 100"]
    assert "fit(" not in everything(graph)
    assert "gpuconf.fit" not in everything(old)
    titles = [each.title for each in explain(GENERATES + torch("0.1 8 7.3 0.0 7.4")).proposals]
    assert titles[0] == "run the model without gradients"
    assert "accumulate" not in "".join(titles)
    assert [each.title for each in explain(OLD_LIBRARY).proposals] == [
        "install CUDA 10.0, which this build wants",
        "see what is wrong with this machine",
    ]


def test_half_is_half() -> None:
    """Of 500 it is 250, not the next power of two."""
    found = explain(REFUSED.format("[500,64,64,64]"))
    assert any("250 instead of 500" in each.title for each in found.proposals)


def test_gpuconfs_own_files_are_not_the_users_code() -> None:
    """On output of rehearse, the line of the script is named."""
    log = (
        frame("/home/a/train.py", "model(images)")
        + frame("/x/gpuconf/rehearsal/agent/main.py", "runpy.run_path(script)")
        + "ResourceExhaustedError: something refused"
    )
    code = explain(log).facts.user_code
    assert code is not None
    assert code.file == "/home/a/train.py"


def test_pytorchs_own_program_fills_the_card() -> None:
    """A few MiB that were free do not mean others where the program itself has most of the card."""
    log = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a "
        "total capacity of 4.00 GiB of which 41.00 MiB is free. Process 7 has 3.44 GiB memory in "
        "use. Of the allocated memory 2.57 GiB is allocated by PyTorch, and 2.00 MiB is reserved "
        "by PyTorch but unallocated.\n"
    )
    assert explain(log).proposals[0].title == "half the batch, or a smaller input"


def test_one_tensor_larger_than_the_card() -> None:
    """Half of it would not fit either, and an advice of half the batch comes second."""
    log = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 30.00 GiB. GPU 0 has a "
        "total capacity of 10.00 GiB of which 3.00 GiB is free. Of the allocated memory 6.00 GiB "
        "is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n"
    )
    first, second, *_ = explain(log).proposals
    assert first.title.startswith("make the one large tensor smaller")
    assert "half the batch" in second.title
