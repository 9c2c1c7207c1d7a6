"""What is read out of a log: tensors, dumps, tables, GPUs, versions, the user's own line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import gpuconf
from gpuconf.basics.units import MIB
from gpuconf.commands.explain import explain
from gpuconf.support.failures.facts.allocations import layer_of
from gpuconf.support.failures.facts.card import LoggedProcess
from gpuconf.support.failures.facts.tensor import request_in, requested_bytes, tensor_in
from tests.programs.processes import run_python

FACTS = yaml.safe_load(Path(__file__).with_name("facts.yaml").read_text(encoding="utf-8"))


def test_tensors() -> None:
    """Shape, type and bytes; without a type the bytes are those of float32."""
    for case in FACTS["tensors"]:
        tensor = tensor_in(case["text"])
        assert tensor is not None, case
        found = (list(tensor.shape), tensor.dtype, tensor.size_bytes)
        assert found == (case["shape"], case["dtype"], case["bytes"]), case


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


def test_requested_bytes() -> None:
    """The exact figure where a message has one, the rounded where not."""
    sizes = FACTS["requested bytes"]
    assert {message: requested_bytes(message) for message in sizes} == sizes


def test_who_asked() -> None:
    """The operation or node, however TensorFlow names it; no function of its own making."""
    nodes = FACTS["nodes"]
    assert {message: request_in(message).node for message in nodes} == nodes


def test_the_layer_of_a_node() -> None:
    """Gradients belong to the layer that they are of."""
    assert layer_of("conv1/Conv2D") == "conv1"
    assert layer_of("conv1/BiasAdd") == "conv1"
    assert layer_of("to_planes") == "to_planes"
    assert layer_of("gradients/conv1/Conv2D_grad/Conv2DBackpropInput") == "conv1"
    assert layer_of("block/conv2/BiasAdd") == "block/conv2"
    assert layer_of("conv1/Conv2D-0-TransposeNHWCToNCHW-LayoutOptimizer") == "conv1"


SMI = Path(__file__).with_name("nvidia_smi.log").read_text(encoding="utf-8")


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


def test_cards() -> None:
    """Name, free memory and compute capability in the forms of TensorFlow 1 and 2."""
    for case in FACTS["cards"]:
        card = explain(case["text"]).facts.card
        assert card is not None, case
        found = (card.name, card.free_bytes, card.compute_capability)
        assert found == (case["name"], case["free bytes"], case["capability"]), case


OLD_DUMP = Path(__file__).with_name("old_dump.log").read_text(encoding="utf-8")


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
    "change",
    [
        ("Free at 0x90a618600 of size 61228800", "Free at 0x90a618600 of size 1228800"),
        ("of size 69648384", "of size 99648384"),
        ("Bin for 74.16MiB", "Bin for 200.00MiB"),
    ],
)
def test_what_is_no_fragmentation(change: tuple[str, str]) -> None:
    """Too little free in all, or a chunk that is large enough."""
    dump = explain(OLD_DUMP.replace(*change)).facts.dump
    assert dump is not None
    assert dump.is_fragmented is False


def test_only_the_last_dump_counts() -> None:
    """Of several refusals the last is the one that killed."""
    later = OLD_DUMP.replace("235736064", "999999999").replace("Bin for", "Bin (256): x\nBin for")
    dump = explain(OLD_DUMP + later).facts.dump
    assert dump is not None
    assert dump.limit_bytes == 999999999
    assert sum(chunks.number for chunks in dump.in_use) == 2


def test_the_users_own_line() -> None:
    """The innermost frame that is not a library's, in Python's and in IPython's form."""
    error = "ResourceExhaustedError: OOM when allocating tensor with shape[9,9] and type float"
    for case in FACTS["user's lines"]:
        frame = explain(case["text"] + error).facts.user_code
        assert frame is not None, case
        assert (frame.file, frame.line, frame.code) == (case["file"], case["line"], case["code"])


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


def test_what_looks_like_the_batch_is_said() -> None:
    """In the report, in the document and in the changes alike; weights and constants have none."""
    for case in FACTS["batches"]:
        oom = f"OOM when allocating tensor with shape{case['shape']} and type float"
        found = explain(f"{oom} [[{{{{node {case['node']}}}}}]]")
        assert found.facts.request.node == case["node"]
        assert found.as_dict()["facts"]["request"]["likely_batch"] == case["batch"], case
        assert ("looks like the batch" in str(found)) == (case["batch"] is not None), case


@pytest.mark.slow
def test_the_order_of_hashes_changes_nothing(tmp_path: Path) -> None:
    """Processes whose sets are ordered differently tell lines that meet two rules alike."""
    program = (
        "import json\nfrom gpuconf import explain\n"
        "jax = 'jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to '\n"
        "bfc = 'OOM when allocating tensor ran out of memory trying to allocate 9 bytes'\n"
        "print(json.dumps(explain(jax + 'allocate 9 bytes.\\n' + bfc).as_dict()))"
    )
    environs = [{"PYTHONHASHSEED": str(seed)} for seed in range(8)]
    assert len({run_python(program, tmp_path, environ=environ) for environ in environs}) == 1


def test_no_file_of_gpuconf_is_the_users_code() -> None:
    """Of no room, also in an editable install, whose path has no site-packages."""
    package = Path(gpuconf.__file__).parent
    rooms = {each.parent.name for each in package.glob("*/__init__.py")} - {"pyinstaller_hook"}
    modules = [f"{room}/a.py" for room in rooms] + [each.name for each in package.glob("*.py")]
    assert len(modules) > 15
    assert [name for name in modules if _user_file(f"/home/a/gpuconf/{name}") is not None] == []
    assert _user_file("/home/a/gpuconf/train.py") == "/home/a/gpuconf/train.py"


def test_gpuconfs_own_frames_are_passed_over() -> None:
    """In what `rehearse` prints, the user's line is the script's."""
    frames = ("/home/a/train.py", "/x/gpuconf/commands/rehearse/agent/main.py")
    log = "".join(f'  File "{file}", line 7, in run\n    run()\n' for file in frames)
    code = explain(f"{log}ResourceExhaustedError: something refused").facts.user_code
    assert code is not None
    assert code.file == "/home/a/train.py"


def test_the_rows_of_one_refusal() -> None:
    """Tensor, bytes and operation are of the refusal that was last."""
    log = "\n".join(
        f"Allocator (GPU_0_bfc) ran out of memory trying to allocate {size}MiB (rounded to "
        f"{size * 2**20})requested by op {op}\nOP_REQUIRES failed: OOM when allocating tensor with "
        f"shape[{rows},1024,256] and type float on /job:x/device:GPU:0 by allocator GPU_0_bfc"
        for size, op, rows in ((256, "first/Relu", 256), (64, "second/Relu", 64))
    )
    request = explain(log).facts.request
    shape = request.tensor and request.tensor.shape
    assert (shape, request.node) == ((64, 1024, 256), "second/Relu")


def _user_file(path: str) -> str | None:
    log = f'Traceback\n  File "{path}", line 3, in f\n    f()\nValueError'
    frame = explain(log).facts.user_code
    return None if frame is None else frame.file
