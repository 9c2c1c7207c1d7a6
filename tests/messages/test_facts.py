"""What is read out of a log: tensors, dumps, tables, cards, versions, the user's own line."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.diagnosis import explain
from gpuconf.messages.facts.allocations import layer_of
from gpuconf.messages.facts.card import LoggedProcess
from gpuconf.messages.facts.tensor import request_in, requested_bytes, tensor_in
from gpuconf.units import GIB, MIB

TENSORS = {
    "OOM when allocating tensor with shape[10000,32,28,28] and type float on /job:a/device:GPU:0 "
    "by allocator GPU_0_bfc": ((10000, 32, 28, 28), "float32", 1003520000),
    "OOM when allocating tensor with shape[128,225,225,3]": ((128, 225, 225, 3), None, 77760000),
    "shape[2,8] and type half on": ((2, 8), "float16", 32),
    "shape[4] and type bool": ((4,), "bool", 4),
    "OOM when allocating tensor with shapedim { size: 100 } dim { size: 18 }": (
        (100, 18), None, 7200,
    ),
    "Unable to allocate 586. GiB for an array with shape (200000, 512, 512, 3) and data type "
    "float32": ((200000, 512, 512, 3), "float32", 629145600000),
    "Unable to allocate 1. MiB for an array with shape (131072,) and data type float64": (
        (131072,), "float64", MIB,
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", TENSORS)
def test_tensors(message: str) -> None:
    """Shape, type and bytes; without a type the bytes are those of float32."""
    shape, dtype, size = TENSORS[message]
    tensor = tensor_in(message)
    assert tensor is not None
    assert (tensor.shape, tensor.dtype, tensor.size_bytes) == (shape, dtype, size)


@pytest.mark.parametrize(
    "frame", ['"scripts/img2img.py", line 7, in <module>', '"a.py", line 7, in test_step']
)
def test_a_program_that_infers_is_known_by_one_frame(frame: str) -> None:
    """Digits count in no word of a line: `img2img` is looked for as the one word that it is."""
    log = f"Traceback (most recent call last):\n  File {frame}\nCUDA out of memory."
    assert "infers" in explain(log).facts.signs


def test_a_type_without_a_size() -> None:
    """Strings and resources have no fixed size: nothing is said of them."""
    assert tensor_in("OOM when allocating tensor with shape[10] and type string") is None


@given(st.lists(st.integers(1, 4096), min_size=1, max_size=6))
def test_the_arithmetic_is_right(shape: list[int]) -> None:
    """The sum that is shown is the product of the shape and the item."""
    tensor = tensor_in(f"tensor with shape{shape} and type double on")
    assert tensor is not None
    assert tensor.size_bytes == 8 * math.prod(shape)
    left, _, right = tensor.arithmetic.removesuffix(" B").partition(" B = ")
    assert math.prod(map(int, left.split(" × "))) == int(right) == tensor.size_bytes


SIZES = {
    "ran out of memory trying to allocate 585.94MiB (rounded to 614400000)requested": 614400000,
    "failed to allocate 157.00M (164626432 bytes) from device": 164626432,
    "Out of memory while trying to allocate 50677260416 bytes.": 50677260416,
    "Out of memory allocating 13307782216 bytes.": 13307782216,
    "CUDA out of memory. Tried to allocate 2.00 GiB": 2 * GIB,
    "Failed to allocate request for 154.06GiB (165425291480B) on device ordinal 0": 165425291480,
    "Allocation of 12845056000 exceeds 10% of free system memory.": 12845056000,
    "out of memory": None,
}


@pytest.mark.parametrize("message", SIZES)
def test_requested_bytes(message: str) -> None:
    """The exact figure where a message has one, the rounded where not."""
    assert requested_bytes(message) == SIZES[message]


NODES = {
    "Detected at node 'model/conv1/Relu' defined at (most recent call last):": "model/conv1/Relu",
    "[[{{node lstm_1/while/body/_1/MatMul_1}}]] [Op:__inference_f_4427]": (
        "lstm_1/while/body/_1/MatMul_1"
    ),
    "[[Node: conv1/Conv2D = Conv2D[T=DT_FLOAT]]]": "conv1/Conv2D",
    "[[node fpn/MatMul (defined at a.py:1) ]]": "fpn/MatMul",
    "No algorithm worked! [Op:Conv2D]": "Conv2D",
    "{{function_node __wrapped__MatMul_device_/job:x}} OOM": "MatMul",
    "in order to run _EagerConst: Dst tensor": "_EagerConst",
    "[Op:__inference_train_function_99]": None,
}


@pytest.mark.parametrize("message", NODES)
def test_who_asked(message: str) -> None:
    """The operation or node, however TensorFlow names it; no function of its own making."""
    assert request_in(message).node == NODES[message]


def test_the_layer_of_a_node() -> None:
    """Gradients belong to the layer that they are of."""
    assert layer_of("conv1/Conv2D") == "conv1"
    assert layer_of("conv1/BiasAdd") == "conv1"
    assert layer_of("to_planes") == "to_planes"
    assert layer_of("gradients/conv1/Conv2D_grad/Conv2DBackpropInput") == "conv1"
    assert layer_of("block/conv2/BiasAdd") == "block/conv2"
    assert layer_of("conv1/Conv2D-0-TransposeNHWCToNCHW-LayoutOptimizer") == "conv1"


SMI = """\
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |
|   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0  On |                  N/A |
| N/A   45C    P8    10W /  N/A |   7800MiB /  8192MiB |      0%      Default |
|    0   N/A  N/A      1234      G   /usr/lib/xorg/Xorg                200MiB |
|    0   N/A  N/A      4242      C   python train.py                  7500MiB |
could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED
"""


def test_who_else_holds_the_card() -> None:
    """nvidia-smi's table in a log: driver, memory, and each process."""
    facts = explain(SMI).facts
    assert facts.card is not None
    assert facts.card.driver == "470.82.01"
    assert (facts.card.total_bytes, facts.card.free_bytes) == (8192 * MIB, 392 * MIB)
    assert facts.card.holders == (
        LoggedProcess(1234, "/usr/lib/xorg/Xorg", 200 * MIB),
        LoggedProcess(4242, "python train.py", 7500 * MIB),
    )
    assert facts.versions["cuda"] == "11.4"


CARDS = {
    "Found device 0 with properties:\nname: GeForce GT 645M\nmajor: 3 minor: 0 memoryClockRate\n"
    "Total memory: 1.95GiB\nFree memory: 157.00MiB": ("GeForce GT 645M", 157 * MIB, "3.0"),
    "name: GeForce GTX 1080 major: 6 minor: 1 memoryClockRate(GHz): 1.8\n"
    "totalMemory: 7.93GiB freeMemory: 5.83GiB": ("GeForce GTX 1080", 6259914833, "6.1"),
    "Created device /job:x/device:GPU:0 with 3340 MB memory:  -> device: 0, name: NVIDIA A100-SXM4-"
    "40GB MIG 1g.5gb, pci bus id: 0, compute capability: 8.0": (
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb", None, "8.0",
    ),
    "  StreamExecutor device (0): Tesla T4, Compute Capability 7.5": ("Tesla T4", None, "7.5"),
}  # fmt: skip


@pytest.mark.parametrize("text", CARDS)
def test_cards(text: str) -> None:
    """Name, free memory and compute capability in the forms of TensorFlow 1 and 2."""
    card = explain(text).facts.card
    assert card is not None
    assert (card.name, card.free_bytes, card.compute_capability) == CARDS[text]


OLD_DUMP = """\
I x/bfc_allocator.cc:643] Bin for 74.16MiB was 64.00MiB, Chunk State:
I x/bfc_allocator.cc:661] Chunk at 0x905a40000 of size 1280
I x/bfc_allocator.cc:661] Chunk at 0x905a40500 of size 104857600
I x/bfc_allocator.cc:670] Free at 0x9063ac500 of size 69648384
I x/bfc_allocator.cc:670] Free at 0x90a618600 of size 61228800
I x/bfc_allocator.cc:679] 1 Chunks of size 1280 totalling 1.2KiB
I x/bfc_allocator.cc:679] 1 Chunks of size 104857600 totalling 100.00MiB
I x/bfc_allocator.cc:685] Stats:
Limit:                   235736064
InUse:                   104858880
MaxInUse:                204858880
NumAllocs:                      26
MaxAllocSize:            121448704
W x/op_kernel.cc:1192] Resource exhausted: OOM when allocating tensor with shape[128,225,225,3]
"""


def test_a_dump_of_tensorflow_1() -> None:
    """In use, free, largest, and that free ≥ asked > largest is fragmentation."""
    found = explain(OLD_DUMP)
    dump = found.facts.dump
    assert found.cause == "fragmentation"
    assert dump is not None
    assert (dump.limit_bytes, dump.in_use_bytes, dump.peak_bytes) == (
        235736064, 104858880, 204858880,
    )  # fmt: skip
    assert (dump.free_bytes, dump.largest_free_bytes) == (69648384 + 61228800, 69648384)


@pytest.mark.parametrize(
    ("change", "fragmented"),
    [
        (("Free at 0x90a618600 of size 61228800", "Free at 0x90a618600 of size 1228800"), False),
        (("of size 69648384", "of size 99648384"), False),
        (("Bin for 74.16MiB", "Bin for 200.00MiB"), False),
    ],
)
def test_what_is_no_fragmentation(change: tuple[str, str], fragmented: bool) -> None:
    """Too little free in all, or a chunk that is large enough."""
    dump = explain(OLD_DUMP.replace(*change)).facts.dump
    assert dump is not None
    assert dump.is_fragmented == fragmented


def test_only_the_last_dump_counts() -> None:
    """Of several refusals the last is the one that killed."""
    later = OLD_DUMP.replace("235736064", "999999999").replace("Bin for", "Bin (256): x\nBin for")
    dump = explain(OLD_DUMP + later).facts.dump
    assert dump is not None
    assert dump.limit_bytes == 999999999
    assert sum(chunks.number for chunks in dump.in_use) == 2


FRAMES = {
    'Traceback (most recent call last):\n  File "train.py", line 9, in main\n    model.fit(x)\n'
    '  File "/usr/lib/python3/dist-packages/keras/a.py", line 5, in fit\n    run()\n': (
        "train.py", 9, "model.fit(x)",
    ),
    '  File "C:\\me\\train.py", line 9, in <module>\n    model.fit(x)\n'
    '  File "C:\\Python\\Lib\\site-packages\\keras\\a.py", line 5, in fit\n    run()\n': (
        "C:\\me\\train.py", 9, "model.fit(x)",
    ),
    "<ipython-input-3-0a1b> in <module>()\n      1 x = 1\n----> 2 model.fit(x)\n\n"
    "/usr/local/lib/python3.6/dist-packages/keras/a.py in fit(self)\n--> 44     run()\n": (
        "<ipython-input-3-0a1b>", 2, "model.fit(x)",
    ),
    "Cell In[5], line 12\n     11 x = 1\n---> 12 model.fit(x)\n\n"
    "File /venv/lib/python3.11/site-packages/keras/a.py:122, in fit(self)\n--> 122     run()\n": (
        "Cell In[5]", 12, "model.fit(x)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("trace", FRAMES)
def test_the_users_own_line(trace: str) -> None:
    """The innermost frame that is not a library's, in Python's and in IPython's form."""
    error = "ResourceExhaustedError: OOM when allocating tensor with shape[9,9] and type float"
    frame = explain(trace + error).facts.user_code
    assert frame is not None
    assert (frame.file, frame.line, frame.code) == FRAMES[trace]


def test_versions() -> None:
    """From paths, from what people print, and from cuDNN's own line."""
    text = (
        '  File "/lib/python3.10/site-packages/a.py", line 1, in f\nTensorFlow version: 2.12.0\n'
        "Keras version 2.12.0\njax==0.4.13\nLoaded cuDNN version 8600\ntorch 1.13.1+cu117"
    )
    assert explain(text).facts.versions == {
        "python": "3.10",
        "tensorflow": "2.12.0",
        "keras": "2.12.0",
        "jax": "0.4.13",
        "cudnn": "8600",
        "torch": "1.13.1+cu117",
    }


@pytest.mark.parametrize(
    ("shape", "node", "batch"),
    [
        ("[64,28,28,32]", "conv/Relu", 64),
        ("[4096,1000]", "dense/MatMul", 4096),
        ("[3,3,512,512]", "conv/Conv2D", None),
        ("[48,1024,1024]", "Fill", None),
        ("[64,64,64]", "Adam/m/conv", None),
        ("[4096,1000]", "Mul", None),
        ("[1,512,512,3]", "conv/Relu", None),
    ],
)
def test_what_looks_like_the_batch_is_said(shape: str, node: str, batch: int | None) -> None:
    """In the report, in the document and in the changes alike; weights and constants have none."""
    oom = f"OOM when allocating tensor with shape{shape} and type float"
    found = explain(f"{oom} [[{{{{node {node}}}}}]]")
    assert found.facts.request.node == node
    assert found.as_dict()["facts"]["request"]["likely_batch"] == batch
    assert ("looks like the batch" in str(found)) == (batch is not None)


@pytest.mark.slow
def test_the_order_of_hashes_changes_nothing() -> None:
    """Processes whose sets are ordered differently tell lines that meet two rules alike."""
    program = (
        "import json\nfrom gpuconf import explain\n"
        "jax = 'jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to '\n"
        "bfc = 'OOM when allocating tensor ran out of memory trying to allocate 9 bytes'\n"
        "print(json.dumps(explain(jax + 'allocate 9 bytes.\\n' + bfc).as_dict()))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(8)
    }
    assert len(told) == 1
