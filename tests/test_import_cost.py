"""``import gpuconf.auto`` stays small: what it loads, reads and asks, seen in fresh processes."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.machine.cards import standin
from tests.programs.processes import run_python, write_package

# Top-level packages and modules that have no place on the way to a limited GPU.
HEAVY = {
    # Frameworks, and what only reports need.
    *("tensorflow", "keras", "tf_keras", "jax", "torch", "numpy", "rich", "IPython"),
    # Of the standard library.
    *("argparse", "asyncio", "concurrent", "dataclasses", "email", "http", "importlib.metadata"),
    *("inspect", "json", "logging", "multiprocessing", "pathlib", "pkg_resources", "socket"),
    *("unittest", "urllib"),
    # Ours.
    *("gpuconf.commands.cli", "gpuconf.commands.demo", "gpuconf.commands.explain"),
    *("gpuconf.support.failures", "gpuconf.support.reporting", "gpuconf.ipython"),
    *("gpuconf.simcard", "gpuconf.backends.tensorflow.runtime", "gpuconf.backends.keras_session"),
    *("gpuconf.isolation", "gpuconf.session.release", "gpuconf.session.max_memory"),
    "gpuconf.profile.shown",
}

# ctypes.util, which nvidia-ml-py imports, brings these; nothing of ours does.
OF_NVML = {"pynvml", "ctypes", "subprocess", "tempfile"}
# What a plan on GPUs needs, and an import that makes none does not.
OF_A_PLAN = {"gpuconf.planner.planning", "gpuconf.machine.leases"}
# As many modules as the import may load, the standard library's included.
MOST_MODULES = 140

# Modules that the interpreter had loaded before the statement do not count.
PROGRAM = """
import sys
before = set(sys.modules)
files = []
sys.addaudithook(lambda event, args: files.append(str(args[0])) if event == "open" else None)
{statement}
loaded = sorted(set(sys.modules) - before)
import json
yaml = [name for name in files if name.endswith((".yaml", ".yml"))]
print(json.dumps([loaded, yaml]))
"""


def too_heavy(loaded: Collection[str]) -> set[str]:
    """Those of the ``loaded`` modules that are heavy, or lie below one that is."""
    return {name for name in loaded if any(name == h or name.startswith(f"{h}.") for h in HEAVY)}


class Cost:
    """What a statement loaded, which YAML files it read, and how often NVML was started."""

    def __init__(self, statement: str, folder: Path, profile: str) -> None:
        if standin.compiler() is None:
            pytest.skip("no C compiler for the stand-in of NVIDIA's library")
        write_package(folder, {"cupy.py": ""})
        log = folder / "nvml.log"
        environ = standin.environment("desktop", folder / "standin", log=log)
        environ["GPUCONF_PROFILE"] = profile
        out = run_python(PROGRAM.format(statement=statement), folder, environ=environ)
        self.loaded, self.yaml = json.loads(out)
        lines = log.read_text().split() if log.exists() else []
        self.nvml_is_left_open = lines.count("init") != lines.count("shutdown")
        self.nvml_starts = lines.count("init")


@pytest.mark.parametrize("profile", ["shared-desktop", "cpu-only"])
def test_the_import(profile: str, tmp_path: Path) -> None:
    """The profile is read and checked; nothing heavy is loaded, and NVML is not asked."""
    cost = Cost("import gpuconf.auto", tmp_path, profile)
    assert not too_heavy(cost.loaded)
    assert not (OF_NVML | OF_A_PLAN | {"gpuconf.backends.cupy"}) & set(cost.loaded)
    assert "gpuconf.session.configure" in cost.loaded
    assert len(cost.loaded) <= MOST_MODULES
    assert [Path(name).name for name in cost.yaml] == [f"{profile}.yaml"]
    assert cost.nvml_starts == 0


def test_a_frameworks_import(tmp_path: Path) -> None:
    """Then NVML is asked, once, and still nothing heavy is loaded."""
    cost = Cost("import gpuconf.auto, cupy", tmp_path, "shared-desktop")
    assert not too_heavy(cost.loaded)
    assert {"pynvml", *OF_A_PLAN} <= set(cost.loaded)
    assert len(cost.yaml) == 1
    assert cost.nvml_starts == 1
    assert not cost.nvml_is_left_open


def test_a_profile_that_needs_none(tmp_path: Path) -> None:
    """gpus: none asks nobody: nvidia-ml-py and what it brings stay out."""
    cost = Cost("import gpuconf.auto, cupy", tmp_path, "cpu-only")
    assert not (OF_NVML | OF_A_PLAN) & set(cost.loaded)
    assert cost.nvml_starts == 0
    assert len(cost.yaml) == 1


def test_the_package_alone_is_nothing(tmp_path: Path) -> None:
    """`import gpuconf` loads nothing of ours but its version until a name is used."""
    cost = Cost("import gpuconf; dir(gpuconf)", tmp_path, "shared-desktop")
    assert {name for name in cost.loaded if name.startswith("gpuconf")} == {
        *("gpuconf", "gpuconf.version")
    }
    assert not too_heavy(cost.loaded)
    assert cost.yaml == []


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import argparse", "import gpuconf.commands.cli.plan"])
def test_this_test_can_fail(statement: str, tmp_path: Path) -> None:
    """The check sees one heavy import next to ours, a second start of NVML, a second file."""
    more = "from gpuconf.machine.cards import read_inventory as r; r(); open('/dev/null')"
    spoiled = f"import gpuconf.auto, cupy; {statement}; {more}; gpuconf.load_profile('cpu-only')"
    cost = Cost(spoiled, tmp_path, "shared-desktop")
    assert too_heavy(cost.loaded)
    assert cost.nvml_starts == 2
    assert len(cost.yaml) == 2
