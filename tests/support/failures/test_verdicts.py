"""Which of several things is the root, what a run survived, and what is only noise."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.commands.explain import explain
from gpuconf.machine.cards.nvml import PROBLEMS

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
    "tensorflow.python.framework.errors_impl."
)
# As Keras writes them, between an exception and its message.
PAGES = "Graph execution error:\n\nDetected at node x defined at (most recent call last):\n"
PAGES += '  File "keras/trainer.py", line 9, in fit\n\n' * 25
EPOCHS = "\n".join(f"Epoch {n}/9\n{n}/9 [====] - 1s 20ms/step - loss: 0.{n}" for n in range(1, 9))
HANDLE = "E x/cuda_dnn.cc:455] could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED"
NO_ALGORITHM = f"{RAISED}NotFoundError: No algorithm worked! [Op:Conv2D]"
REFUSED = "OOM when allocating tensor with shape[64,128,128,64] and type float on /x/device:GPU:0"
LINES = yaml.safe_load(Path(__file__).with_name("causes.yaml").read_text(encoding="utf-8"))
# The words in angle brackets in verdicts.yaml.
BLOCKS = {
    "<LADDER>": LADDER,
    "<OOM>": OOM,
    "<RAISED>": RAISED,
    "<PAGES>": PAGES,
    "<EPOCHS>": EPOCHS,
    "<NO DRIVER>": f"gpuconf: no limit is set: {PROBLEMS[12].sentence}",
    **{f"<{cause}>": line for cause, line in LINES.items()},
}
CASES = yaml.safe_load(Path(__file__).with_name("verdicts.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    """Cause, severity, and what is seen next to the cause, however it was pasted."""
    case = CASES[name]
    text = case["log"]
    for word, block in BLOCKS.items():
        text = text.replace(word, block)
    found = explain(text)
    assert (found.cause, found.severity) == (case["cause"], case["severity"])
    assert set(case.get("also", ())) <= set(found.also), found.also


def test_the_lines_that_show_it() -> None:
    """Evidence has the cause's lines, consequences the others', notes what is harmless."""
    noise = "I x/gpu_executor.cc:1] successful NUMA node read from SysFS had negative value (-1)"
    found = explain(f"{noise}\n{noise}\n{HANDLE}\n{NO_ALGORITHM}")
    assert [each.line for each in found.evidence] == [3]
    assert [(each.line, each.cause) for each in found.consequences] == [(7, "cudnn-internal")]
    assert [(each.line, each.lines) for each in found.notes] == [(1, 2)]


def test_a_reporters_sentence_is_no_line_of_the_log() -> None:
    """It is neither counted nor shown, where the log itself has the words."""
    (shown,) = explain(f"I get this error: {REFUSED}\nW x.cc:1] {REFUSED}").evidence
    assert (shown.line, shown.lines) == (2, 1)
    (alone,) = explain(f"I get this error: {REFUSED}").evidence
    assert alone.line == 1


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
    with pytest.raises(TypeError, match="accepts an exception or the text of a log"):
        explain(given)  # type: ignore[arg-type]
