"""``gpuconf doctor`` over machines of every kind: the real nvidia-ml-py over the stand-in NVML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gpuconf.basics.units import GIB, MIB
from tests.commands.cli.commands import Job, run_jobs
from tests.commands.doctor.doctor_commands import troubles
from tests.commands.doctor.doctor_trees import (
    FULL_CARD,
    LINUX,
    MODULE,
    WSL,
    XID_79,
    machine,
    pci_card,
    process,
)
from tests.machine.cards import standin
from tests.programs.processes import Nvml

pytestmark = pytest.mark.slow  # waits for programs

GROUPS = ("driver", "cards", "environment", "host", "profile")
# Files around a machine, by the names in scenarios.yaml.
PARTS = {
    "card": pci_card(),
    "loaded": {"/proc/driver/nvidia/version": MODULE, **pci_card()},
    "nodes": {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""},
    "wsl": {"/proc/version": WSL},
    "windows": {"/proc/version": WSL, "/usr/lib/wsl/lib/libcuda.so.1": ""},
    "xid 79": {"/var/log/kern.log": f"{LINUX}{XID_79}\n"},
    "stopped": process(4242, "python3", "T"),
}


class Scenario(NamedTuple):
    """A machine of scenarios.yaml."""

    name: str
    nvml: str | standin.Machine
    files: Mapping[str, str]
    environ: Mapping[str, str]
    found: Mapping[str, str]


def scenarios() -> Iterator[Scenario]:
    """All of them.  Drivers that lack functions are other libraries, and so other processes."""
    text = Path(__file__).with_name("scenarios.yaml").read_text(encoding="utf-8")
    for name, row in yaml.safe_load(text).items():
        files = dict.fromkeys(row.get("files", ()), "")
        for part in row.get("parts", ()):
            files.update(PARTS[part])
        nvml = FULL_CARD if row["nvml"] == "full" else row["nvml"]
        yield Scenario(name, nvml, files, row.get("environ", {}), row.get("found", {}))


SCENARIOS = tuple(scenarios())


def _jobs(scenario: Scenario, folder: Path, environ: Mapping[str, str]) -> Job:
    root = machine(folder / scenario.name.replace("/", "_"), **scenario.files)
    kept = {name: value for name, value in environ.items() if name != "LD_LIBRARY_PATH"}
    arguments = ["doctor", "--json", "--root", str(root), *GROUPS]
    return Job(arguments, {**kept, **scenario.environ})


@pytest.fixture(scope="session")
def reports(nvml: Nvml, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The exit code and the document of every scenario, by its name."""
    folder = tmp_path_factory.mktemp("scenarios")
    batches: dict[str, list[Scenario]] = {}
    for scenario in SCENARIOS:
        batches.setdefault(nvml(scenario.nvml)["LD_LIBRARY_PATH"], []).append(scenario)
    found = {}
    for path, batch in batches.items():
        jobs = [_jobs(each, folder, nvml(each.nvml)) for each in batch]
        done = run_jobs(folder, *jobs, environ={"LD_LIBRARY_PATH": path})
        found.update({each.name: result for each, result in zip(batch, done, strict=True)})
    return found


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_scenario(scenario: Scenario, reports: dict[str, Any]) -> None:
    """What is wrong, and nothing else is; the document is as the schema says, with fixes."""
    done = reports[scenario.name]
    document = done.document
    assert troubles(document) == scenario.found
    assert done.code == ("fail" in scenario.found.values())
    assert done.err == ""
    for finding in document["findings"]:
        assert bool(finding["fix"]) == (finding["status"] in ("warn", "fail"))


def test_the_cards_of_a_desktop(reports: dict[str, Any]) -> None:
    """Figures in bytes, a bar whose parts sum to the total, who holds the memory."""
    (gpu,) = reports["1 GPU, drives the display"].document["gpus"]
    assert gpu["total_bytes"] == 12 * GIB - 200 * MIB == sum(gpu["bar"].values())
    assert gpu["bar"]["others_bytes"] == 3 * GIB
    assert gpu["bar"]["may_take_bytes"] == gpu["limit_bytes"] > 7 * GIB
    assert gpu["remarks"] == ["drives the display"]
    assert [(holder["pid"], holder["used_bytes"]) for holder in gpu["holders"]] == [
        (4242, 2 * GIB),
        (900, 600 * MIB),
    ]


def test_a_process_of_ours_is_told_with_owner_and_start(reports: dict[str, Any]) -> None:
    """What /proc adds to NVML's list; our part of the memory is apart from others'."""
    (gpu,) = reports["a stopped process"].document["gpus"]
    holder = gpu["holders"][0]
    assert (holder["pid"], holder["state"], holder["is_ours"]) == (4242, "T", True)
    assert holder["since"].startswith("2023-11-1")
    assert (gpu["bar"]["ours_bytes"], gpu["bar"]["others_bytes"]) == (2 * GIB, GIB)


def test_eight_cards_and_mig_instances(reports: dict[str, Any]) -> None:
    """Every GPU is there in its order, instances under theirs, each with its own bar."""
    eight = reports["8 GPUs"].document["gpus"]
    assert [gpu["index"] for gpu in eight] == list(range(8))
    cut, whole = reports["MIG"].document["gpus"]
    assert cut["bar"] is None
    assert [part["is_visible"] for part in cut["instances"]] == [True, True, False]
    assert all(sum(part["bar"].values()) == part["total_bytes"] for part in cut["instances"])
    assert whole["bar"]["may_take_bytes"] == whole["limit_bytes"]


def test_unknown_stays_unknown(reports: dict[str, Any]) -> None:
    """A lost GPU has no figures, never 0; where the host's memory is the GPU's, it has those."""
    (gpu,) = reports["unified memory"].document["gpus"]
    assert sum(gpu["bar"].values()) == gpu["total_bytes"] > 0
    lost = reports["lost GPU"].document["gpus"][1]
    assert (lost["name"], lost["remarks"]) == (None, ["lost"])
    (r440,) = reports["R440"].document["gpus"]
    assert r440["holders"] is None


def test_a_full_card_says_who_and_what_would_be_refused(reports: dict[str, Any]) -> None:
    """Nothing may be taken; the plan's own refusal is the finding, with its sum."""
    document = reports["a full GPU"].document
    (gpu,) = document["gpus"]
    assert gpu["bar"]["may_take_bytes"] == 0
    plan = next(each for each in document["findings"] if each["id"] == "profile.plan")
    assert "not enough GPU memory" in plan["summary"]
    assert plan["fix"].startswith("gpuconf ps   # ")
    assert any("keep_free" in line for line in plan["detail"])
