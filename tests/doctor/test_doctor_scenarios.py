"""``gpuconf doctor`` over machines of every kind: the real nvidia-ml-py over the stand-in NVML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuconf.units import GIB, MIB
from tests.doctor.doctor_commands import Job, checked, run_jobs, troubles
from tests.doctor.doctor_trees import LINUX, MODULE, WSL, XID_79, machine, pci_card, process
from tests.hardware import standin
from tests.programs.processes import Nvml

pytestmark = pytest.mark.slow  # waits for programs

GROUPS = ("driver", "cards", "environment", "host", "profile")
LOADED = {"/proc/driver/nvidia/version": MODULE, **pci_card()}
NODES = {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/dev/nvidia-uvm": ""}
WINDOWS = {"/proc/version": WSL, "/usr/lib/wsl/lib/libcuda.so.1": ""}
FULL = standin.Machine(
    (standin.Card(standin.uuid(0), total=8 * GIB, reserved=0, used=8 * GIB - 160 * MIB),)
)


class Scenario(NamedTuple):
    """A machine: what NVML tells, the files around it, variables; and what is wrong with it."""

    name: str
    nvml: str | standin.Machine
    files: Mapping[str, str] = {}
    environ: Mapping[str, str] = {}
    found: Mapping[str, str] = {}
    code: int = 0


def failing(name: str, nvml: str | standin.Machine, *ids: str, **rest: Any) -> Scenario:
    """A machine on which these checks fail."""
    return Scenario(name, nvml, found=dict.fromkeys(ids, "fail"), code=1, **rest)


def warning(name: str, nvml: str | standin.Machine, *ids: str, **rest: Any) -> Scenario:
    """A machine on which these checks warn."""
    return Scenario(name, nvml, found=dict.fromkeys(ids, "warn"), **rest)


SCENARIOS = (
    Scenario("0 cards", "no_cards"),
    Scenario("1 card, drives the display", "desktop", {**LOADED, **NODES}),
    Scenario("8 cards", "eight_cards"),
    Scenario("no library, in a container without a GPU", "no_library", {"/.dockerenv": ""}),
    failing("no driver", "no_library", "driver.present", files=pci_card()),
    failing("no driver, nouveau", "no_library", "driver.present",
            files={**pci_card(), "/sys/module/nouveau/x": ""}),
    failing("a container without --gpus", "no_library", "driver.container",
            files={**LOADED, "/.dockerenv": ""}),
    failing("a container without the capability utility", "no_library", "driver.container",
            files={**LOADED, **NODES, "/.dockerenv": ""}),
    Scenario("AMD", "no_library", {"/dev/kfd": ""}),
    Scenario("Jetson", "no_library", {"/etc/nv_tegra_release": "", "/dev/nvhost-gpu": ""}),
    failing("driver not loaded", "driver_not_loaded", "driver.present", files=pci_card()),
    Scenario("an image with a driver, a machine without a card", "driver_not_loaded"),
    failing("mismatch", "version_mismatch", "driver.module", files={**LOADED, **NODES}),
    failing("no permission", "no_permission", "driver.devices", files=LOADED),
    failing("an error nobody has heard of", "unheard_of_error", "driver.present"),
    failing("lost before the start", "gpu_lost_at_start", "cards.reachable"),
    failing("lost GPU", "lost_card", "cards.reachable"),
    failing("dying GPU", "dying_card", "cards.reachable"),
    Scenario("a card closed to us", "card_forbidden"),
    Scenario("MIG", "mig"),
    Scenario("MIG off", "mig_off"),
    failing("MIG without instances", "mig_empty", "cards.mig"),
    Scenario("unified memory", "unified_memory"),
    Scenario("memory told as 0", "zero_memory"),
    Scenario("memory of processes unknown", "process_memory_unknown"),
    Scenario("names that are not text", "odd_names"),
    Scenario("WSL2", "wsl2", {**WINDOWS, "/dev/dxg": ""}),
    failing("WSL without its device", "no_library", "driver.wsl", files=WINDOWS),
    Scenario("WSL without NVIDIA", "no_library", {"/proc/version": WSL, "/dev/dxg": ""}),
    warning("unequal cards", "unequal_cards", "environment.device_order"),
    Scenario("unequal cards in PCI order", "unequal_cards",
             environ={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    Scenario("ECC memory that is sound", "sound_ecc"),
    warning("memory errors", "ecc_errors", "cards.ecc"),
    warning("a remap is pending", "remap_pending", "cards.ecc"),
    warning("a page retirement is pending", "page_retirement", "cards.ecc"),
    failing("a remap failed", "remap_failed", "cards.ecc"),
    warning("the driver wants a restart", "wants_reboot", "cards.ecc"),
    warning("Xid 79", "desktop", "cards.xid", files={"/var/log/kern.log": f"{LINUX}{XID_79}\n"}),
    warning("exclusive mode", "exclusive", "cards.compute_mode"),
    failing("prohibited mode", "prohibited", "cards.compute_mode"),
    warning("a stopped process", "desktop", "cards.leftover",
            files=process(4242, "python3", "T")),
    Scenario("a full card", FULL, found={"cards.memory": "warn", "cards.leftover": "warn",
                                         "profile.plan": "fail"}, code=1),
    Scenario("a full card, in a container", FULL, {"/.dockerenv": ""},
             found={"cards.memory": "warn", "profile.plan": "fail"}, code=1),
    warning("growth given as 1", "desktop", "environment.growth",
            environ={"TF_FORCE_GPU_ALLOW_GROWTH": "1"}),
    failing("a repeat", "two_cards", "environment.visible_devices",
            environ={"CUDA_VISIBLE_DEVICES": "1,1"}),
    Scenario("a profile that is not there", "desktop", environ={"GPUCONF_PROFILE": "halfcard"},
             found={"profile.choice": "fail"}, code=1),
    Scenario("an allocator that voids the cap", "desktop",
             environ={"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
             found={"environment.allocator": "warn", "profile.environment": "warn"}),
)  # fmt: skip

# Drivers that lack functions: each is another library, and so another process.
OLD_DRIVERS = (
    failing("R470", "driver_r470", "driver.cuda"),  # the installed TensorFlow is for CUDA 12
    failing("R440", "driver_r440", "driver.cuda"),
    failing("R390", "driver_r390", "driver.present"),
)


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
    for scenario in (*SCENARIOS, *OLD_DRIVERS):
        batches.setdefault(nvml(scenario.nvml)["LD_LIBRARY_PATH"], []).append(scenario)
    found = {}
    for path, batch in batches.items():
        jobs = [_jobs(each, folder, nvml(each.nvml)) for each in batch]
        done = run_jobs(folder, *jobs, environ={"LD_LIBRARY_PATH": path})
        found.update({each.name: result for each, result in zip(batch, done, strict=True)})
    return found


@pytest.mark.parametrize("scenario", [*SCENARIOS, *OLD_DRIVERS], ids=lambda each: each.name)
def test_a_scenario(scenario: Scenario, reports: dict[str, Any]) -> None:
    """What is wrong, and nothing else is; the document is as the schema says, with fixes."""
    done = reports[scenario.name]
    document = checked(done)
    assert troubles(document) == scenario.found
    assert done.code == scenario.code
    assert done.err == ""
    for finding in document["findings"]:
        assert bool(finding["fix"]) == (finding["status"] in ("warn", "fail"))


def test_the_cards_of_a_desktop(reports: dict[str, Any]) -> None:
    """Figures in bytes, a bar whose parts sum to the total, who holds the memory."""
    (gpu,) = checked(reports["1 card, drives the display"])["gpus"]
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
    (gpu,) = checked(reports["a stopped process"])["gpus"]
    holder = gpu["holders"][0]
    assert (holder["pid"], holder["state"], holder["is_ours"]) == (4242, "T", True)
    assert holder["since"].startswith("2023-11-1")
    assert (gpu["bar"]["ours_bytes"], gpu["bar"]["others_bytes"]) == (2 * GIB, GIB)


def test_eight_cards_and_mig_instances(reports: dict[str, Any]) -> None:
    """Every card is there in its order, instances under theirs, each with its own bar."""
    eight = checked(reports["8 cards"])["gpus"]
    assert [gpu["index"] for gpu in eight] == list(range(8))
    cut, whole = checked(reports["MIG"])["gpus"]
    assert cut["bar"] is None
    assert [part["is_visible"] for part in cut["instances"]] == [True, True, False]
    assert all(sum(part["bar"].values()) == part["total_bytes"] for part in cut["instances"])
    assert whole["bar"]["may_take_bytes"] == whole["limit_bytes"]


def test_unknown_stays_unknown(reports: dict[str, Any]) -> None:
    """A lost card has no figures, never 0; where the host's memory is the GPU's, it has those."""
    (gpu,) = checked(reports["unified memory"])["gpus"]
    assert sum(gpu["bar"].values()) == gpu["total_bytes"] > 0
    lost = checked(reports["lost GPU"])["gpus"][1]
    assert (lost["name"], lost["remarks"]) == (None, ["lost"])
    (r440,) = checked(reports["R440"])["gpus"]
    assert r440["holders"] is None


def test_a_full_card_says_who_and_what_would_be_refused(reports: dict[str, Any]) -> None:
    """Nothing may be taken; the plan's own refusal is the finding, with its sum."""
    document = checked(reports["a full card"])
    (gpu,) = document["gpus"]
    assert gpu["bar"]["may_take_bytes"] == 0
    plan = next(each for each in document["findings"] if each["id"] == "profile.plan")
    assert "not enough GPU memory" in plan["summary"]
    assert plan["fix"].startswith("gpuconf ps   # ")
    assert any("keep_free" in line for line in plan["detail"])
