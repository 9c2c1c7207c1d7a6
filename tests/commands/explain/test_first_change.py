"""What is advised, in which order, and what is not: by figures, versions and the log's program.

The lines of `first_change.yaml` are written for these tests, in the shape of the real messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuconf.commands.explain import Diagnosis, explain

CASES = yaml.safe_load(Path(__file__).with_name("first_change.yaml").read_text(encoding="utf-8"))
CHECKED = {"log", "first", "second", "any", "never", "says", "never_says", "changes", "severity"}


def texts(found: Diagnosis) -> list[str]:
    """Each change, in order: its title and what is to be pasted."""
    return [f"{each.title}\n{each.paste}" for each in found.proposals]


def listed(value: Any) -> list[str]:
    """One text or several."""
    return [value] if isinstance(value, str) else list(value)


@pytest.mark.parametrize("name", CASES)
def test_changes_of_a_log(name: str) -> None:
    """The first and second change; what is among them, or in none of them; how many there are."""
    case = CASES[name]
    assert case.keys() <= CHECKED
    assert len(case) > 1
    found = explain(case["log"])
    changes = texts(found)
    for place, key in enumerate(("first", "second")):
        assert case.get(key, "") in "".join(changes[place : place + 1])
    assert case.get("any", "") in "\n".join(changes)
    assert [each for each in listed(case.get("never", ())) if each in "\n".join(changes)] == []
    assert [each for each in listed(case.get("says", ())) if each not in str(found)] == []
    assert [each for each in listed(case.get("never_says", ())) if each in str(found)] == []
    assert len(changes) == case.get("changes", len(changes))
    assert found.severity == case.get("severity", found.severity)


@pytest.mark.parametrize("name", [each for each in CASES if each.startswith("a full disk")])
def test_no_batch_empties_a_disk(name: str) -> None:
    """Whatever was being written."""
    found = explain(CASES[name]["log"])
    assert found.cause == "disk-full"
    assert [each.kind for each in found.proposals if each.kind == "batch"] == []


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
    """A PyTorch or JAX user is not told to install TensorFlow or to set its limits."""
    for message in MESSAGES:
        found = explain(f"Traceback (most recent call last):\n{FRAMES[framework]}{message}")
        assert found.facts.framework == framework
        text = "\n".join(texts(found)).lower()
        others = {"jax", "torch"} - {framework}
        assert [other for other in others if other in text] == [], message
        named = "tensorflow" in text or "keras" in text
        assert named == (framework == "tensorflow"), message
