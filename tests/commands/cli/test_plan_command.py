"""``gpuconf plan``: text for people, one JSON document for programs, over a stand-in NVML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.session.environment import is_installed
from tests import golden
from tests.commands.cli.commands import run_commands
from tests.machine.cards import standin
from tests.programs.processes import Nvml

pytestmark = pytest.mark.slow  # waits for programs

REPORTS = Path(__file__).parent / "reports"

CARD = standin.Card(
    standin.uuid(0),
    "NVIDIA GeForce RTX 2080 Ti",
    total=11264 * MIB,
    reserved=0,
    used=1945 * MIB,
    major=7,
    minor=5,
    processes=(standin.Process(4242, "compute", 1945 * MIB, "python3"),),
)
STORY = standin.Machine((CARD,))


def test_the_story_for_people(tmp_path: Path, nvml: Nvml) -> None:
    """The whole sum, who uses the GPU, and the variables that would be set."""
    (done,) = run_commands(tmp_path, ["plan"], environ=nvml(STORY))
    assert done.code == 0
    assert done.err == ""
    first, *lines = done.out.splitlines(keepends=True)
    assert first.startswith("profile shared-desktop  /")
    torch = "  PyTorch: 7884 MiB / 11264 MiB total = fraction 0.6999, allocated as needed\n"
    assert (torch in lines) == is_installed("torch")  # what is not installed has no line
    golden.check(REPORTS / "plan.txt", "".join(line for line in lines if line != torch))


def test_the_document_has_the_promised_keys(tmp_path: Path, nvml: Nvml) -> None:
    """Every key that the README promises, with bytes as numbers and unknown as null."""
    pair, dedicated = run_commands(
        tmp_path,
        ["plan", "virtual-pair", "--json"],
        ["plan", "--json", "--color", "always", "dedicated"],
        environ=nvml(STORY),
    )
    document = pair.document
    assert list(document)[:2] == ["schema_version", "profile"]
    assert (document["schema_version"], document["profile"]) == (1, "virtual-pair")
    assert {"source", "conflicts", "notes", "gpus", "environment"} <= set(document)
    assert document["environment"]["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    (gpu,) = document["gpus"]
    golden.check(
        REPORTS / "plan_of_a_pair.json", json.dumps(gpu, indent=2, ensure_ascii=False) + "\n"
    )
    assert dedicated.document["gpus"][0]["limit_bytes"] == 7783 * MIB
    assert pair.err == dedicated.err == ""


def test_failures_are_one_document_too(tmp_path: Path, nvml: Nvml) -> None:
    """A shortage exits 1, a bad profile or bad usage 2; the same words stand on stderr."""
    (tmp_path / "bad.yaml").write_text("gpus: all\nmemory:\n  keep_fre: 1GiB\n")
    full = standin.Machine((CARD._replace(used=11000 * MIB),))
    shortage, unknown, bad, usage = run_commands(
        tmp_path,
        ["plan", "--json"],
        ["plan", "--json", "shared-desk"],
        ["plan", "--json", "bad.yaml"],
        ["plan", "--json", "one", "two"],
        environ=nvml(full),
    )
    assert [done.code for done in (shortage, unknown, bad, usage)] == [1, 2, 2, 2]
    for done in (shortage, unknown, bad, usage):
        assert set(done.document) == {"schema_version", "error"}
        error = done.document["error"]
        assert error["message"] in done.err
        assert error["hint"] in done.err
        assert done.err.startswith("gpuconf: error: ")
    assert "used or reserved by pid 4242 (python3)" in shortage.document["error"]["message"]
    assert "shared-desktop" in unknown.document["error"]["hint"]
    assert (bad.document["error"]["line"], bad.document["error"]["key"]) == (3, "memory.keep_fre")


def test_what_the_machine_lacks_is_a_note(tmp_path: Path, nvml: Nvml) -> None:
    """No driver, no figures, GPUs switched off: exit 0 and a note; unified memory is the host's."""
    (unified,) = run_commands(tmp_path, ["plan", "--json"], environ=nvml("unified_memory"))
    total = unified.document["gpus"][0]["total_bytes"]
    assert 0 < unified.document["gpus"][0]["limit_bytes"] <= total * 0.7
    assert any("for the host" in line for line in unified.document["gpus"][0]["arithmetic"])
    text, document = run_commands(
        tmp_path, ["plan"], ["plan", "--json"], environ=nvml("no_library")
    )
    assert "any GPU a framework finds" in text.out
    assert text.err.startswith("note: any GPU is limited to 0.7 of its total")
    assert "  hint: try it on a simulated GPU" in text.err
    (tmp_path / "bare.yaml").write_text("env: {OMP_NUM_THREADS: '2'}\n", encoding="utf-8")
    (bare,) = run_commands(tmp_path, ["plan", "./bare.yaml"], environ=nvml("no_library"))
    assert (bare.code, bare.err) == (0, "")  # it needs no figures, and a hint belongs to a note
    assert document.document["gpus"] == []
    environ = {**nvml(STORY), "CUDA_VISIBLE_DEVICES": "", "GPUCONF_DISABLE": "1"}
    (hidden,) = run_commands(tmp_path, ["plan"], environ=environ)
    assert "no GPU: frameworks run on the CPU" in hidden.out
    assert 'CUDA_VISIBLE_DEVICES="" hides every GPU' in hidden.err
    assert "GPUCONF_DISABLE is set" in hidden.err
    assert unified.code == text.code == document.code == hidden.code == 0


def test_the_users_variables_that_stay_are_told(tmp_path: Path, nvml: Nvml) -> None:
    """A conflict is a note for people and an entry for programs, and is not set."""
    environ = {**nvml(STORY), "XLA_PYTHON_CLIENT_PREALLOCATE": "true"}
    text, found = run_commands(tmp_path, ["plan"], ["plan", "--json"], environ=environ)
    assert "XLA_PYTHON_CLIENT_PREALLOCATE=" not in text.out
    assert "keeping XLA_PYTHON_CLIENT_PREALLOCATE=true from your environment" in text.err
    (conflict,) = found.document["conflicts"]
    assert (conflict["requested"], conflict["effective"]) == ("false", "true")
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in found.document["environment"]
