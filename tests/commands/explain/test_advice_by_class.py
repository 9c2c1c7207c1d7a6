"""What comes first is decided by figures, versions and the program of the log.

The lines are written for these tests, in the shape of the programs' messages.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.commands.explain import Diagnosis, explain

FIRST = yaml.safe_load(Path(__file__).with_name("first_change.yaml").read_text(encoding="utf-8"))


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


GENERATES = frame("/home/a/chat.py", "model.generate(**inputs)")
XLA = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
REFUSED = (
    "ResourceExhaustedError: OOM when allocating tensor with shape{} and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)
OLD_LIBRARY = (
    "W x/dso_loader.cc:1] Could not load dynamic library 'libcudart.so.10.0'; dlerror: "
    "libcudart.so.10.0: cannot open shared"
)


def first(found: Diagnosis) -> str:
    """The first change, with what is to be pasted."""
    return f"{found.proposals[0].title}\n{found.proposals[0].paste}"


def everything(found: Diagnosis) -> str:
    """All changes."""
    return "\n".join(f"{each.title}\n{each.paste}" for each in found.proposals)


@pytest.mark.parametrize("name", FIRST)
def test_what_comes_first(name: str) -> None:
    """The change that an expert would name first for such a message: its title or its paste."""
    assert FIRST[name]["first"] in first(explain(FIRST[name]["log"]))


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
        assert "gpuconf.fit" not in everything(found)
    assert "fit(" not in everything(graph)
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
        + frame("/x/gpuconf/commands/rehearse/agent/main.py", "runpy.run_path(script)")
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
    larger, second, *_ = explain(log).proposals
    assert larger.title.startswith("make the one large tensor smaller")
    assert "half the batch" in second.title


FRAMES = {
    "torch": '  File "/lib/python3.11/site-packages/torch/cuda/a.py", line 9, in f\n    g()\n',
    "jax": '  File "/lib/python3.11/site-packages/jax/_src/api.py", line 9, in f\n    g()\n',
    "tensorflow": '  File "/lib/python3.11/site-packages/tensorflow/a.py", line 9, in f\n    g()\n',
}


MESSAGES = (
    "ImportError: libcublas.so.12: cannot open shared object file: No such file or directory",
    "CUDA error: no kernel image is available for execution on the device",
    "could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
    "No PTX compilation provider is available. Neither ptxas/nvlink nor nvjtlink is available.",
)


@pytest.mark.parametrize("framework", FRAMES)
def test_no_other_frameworks_remedy(framework: str) -> None:
    """Who uses PyTorch or JAX is not told to install TensorFlow, nor to set its limits."""
    for message in MESSAGES:
        found = explain(f"Traceback (most recent call last):\n{FRAMES[framework]}{message}")
        assert found.facts.framework == framework
        text = everything(found).lower()
        others = {"jax", "torch"} - {framework}
        assert [other for other in others if other in text] == [], message
        named = "tensorflow" in text or "keras" in text
        assert named == (framework == "tensorflow"), message


CREATED = (
    "I x/gpu_device.cc:1] Created device /job:x/device:GPU:0 with 10240 MB memory:  -> device: 0, "
    "name: NVIDIA GeForce RTX 3060, compute capability: 8.6\n"
)
FIT = 'Traceback:\n  File "t.py", line 3, in <module>\n    model.{}\n'


def test_a_known_limit_takes_no_batch_away() -> None:
    """Where the limit is known and what was in use is not, it is half, as without the limit."""
    log = FIT.format("fit(x, y, batch_size=64)") + REFUSED.format("[64,512,512,64]")
    for text in (log, CREATED + log):
        assert "32 instead of 64" in explain(text).proposals[1].title
    whole = FIT.format("evaluate(x, y)") + REFUSED.format("[10000,32,28,28]")
    assert "evaluate in batches of" in explain(CREATED + whole).proposals[1].title


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
    weights = explain(REFUSED.format("[802816,4096]") + " [Op:StatelessRandomUniformV2]")
    assert "a smaller layer" in first(weights)
    assert "batch_size" not in everything(weights)


def test_where_others_hold_the_card_they_come_first() -> None:
    """And no share of the card is proposed that is not free."""
    smi = (
        "| N/A   45C    P8    10W /  N/A |  23800MiB / 24576MiB |      0%      Default |\n"
        "|    0   N/A  N/A      9876      C   python                          23000MiB |\n"
    )
    found = explain(smi + REFUSED.format("[32,64,224,224]"))
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
