"""``import gpuconf.auto`` stays small: what it loads, reads and asks, seen in fresh processes."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.hardware import standin
from tests.processes import run_python, write_package

# Top-level packages and modules that have no place on the way to a limited card.
HEAVY = {
    "tensorflow",
    "keras",
    "tf_keras",
    "jax",
    "torch",
    "numpy",
    "rich",
    "argparse",
    "asyncio",
    "concurrent",
    "dataclasses",
    "email",
    "http",
    "IPython",
    "importlib.metadata",
    "inspect",
    "json",
    "logging",
    "multiprocessing",
    "pathlib",
    "pkg_resources",
    "socket",
    "unittest",
    "urllib",
    "gpuconf.cli",
    "gpuconf.demo",
    "gpuconf.diagnosis",
    "gpuconf.messages",
    "gpuconf.exception_hooks",
    "gpuconf.ipython",
    "gpuconf.rich_display",
    "gpuconf.reporting",
    "gpuconf.simcard",
    "gpuconf.backends.tensorflow.runtime",
    "gpuconf.backends.keras_session",
    "gpuconf.profile.documentation",
    "gpuconf.profile.plain",
}

# ctypes.util, which nvidia-ml-py imports, brings these; nothing of ours does.
OF_NVML = {"pynvml", "ctypes", "subprocess", "tempfile"}
# What a plan needs, and an import that makes none does not.
OF_A_PLAN = {"gpuconf.planner", "gpuconf.hardware", "gpuconf.leases"}

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


def test_nobody_is_asked_at_import(tmp_path: Path) -> None:
    """Nothing heavy is loaded, one YAML file is read; planner, NVML and its binding stay out."""
    cost = Cost("import gpuconf.auto", tmp_path, "shared-desktop")
    assert not too_heavy(cost.loaded)
    assert {"gpuconf.bootstrap", "yaml"} <= set(cost.loaded)
    assert not (OF_NVML | OF_A_PLAN | {"gpuconf.own_leases"}) & set(cost.loaded)
    assert [Path(name).name for name in cost.yaml] == ["shared-desktop.yaml"]
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
    assert not too_heavy(cost.loaded)
    assert not (OF_NVML | {"gpuconf.leases", "gpuconf.own_leases"}) & set(cost.loaded)
    assert cost.nvml_starts == 0
    assert len(cost.yaml) == 1


def test_the_package_alone_is_nothing(tmp_path: Path) -> None:
    """`import gpuconf` loads nothing but its version until a name is used."""
    cost = Cost("import gpuconf; dir(gpuconf)", tmp_path, "shared-desktop")
    assert cost.loaded == ["__future__", "gpuconf", "gpuconf.version"]
    assert cost.yaml == []


@pytest.mark.parametrize("statement", ["import argparse", "import gpuconf.cli.plan"])
def test_this_test_can_fail(statement: str, tmp_path: Path) -> None:
    """The check sees one heavy import beside ours, a second start of NVML, a second file."""
    more = "from gpuconf.hardware import read_inventory as r; r(); open('/dev/null')"
    spoiled = f"import gpuconf.auto, cupy; {statement}; {more}; gpuconf.load_profile('cpu-only')"
    cost = Cost(spoiled, tmp_path, "shared-desktop")
    assert too_heavy(cost.loaded)
    assert cost.nvml_starts == 2
    assert len(cost.yaml) == 2
