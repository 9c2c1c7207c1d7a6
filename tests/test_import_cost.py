"""``import gpuconf.auto`` stays small: what it loads, reads and asks, seen in fresh processes."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.machine.cards import standin
from tests.programs.processes import run_python, write_package

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
    "gpuconf.commands.cli",
    "gpuconf.commands.demo",
    "gpuconf.commands.explain",
    "gpuconf.support.failures",
    "gpuconf.commands.explain.uncaught",
    "gpuconf.ipython",
    "gpuconf.basics.display",
    "gpuconf.support.reporting",
    "gpuconf.simcard",
    "gpuconf.backends.tensorflow.runtime",
    "gpuconf.backends.keras_session",
    "gpuconf.profile.documentation",
    "gpuconf.profile.shown",
}

# ctypes.util, which nvidia-ml-py imports, brings these; nothing of ours does.
OF_NVML = {"pynvml", "ctypes", "subprocess", "tempfile"}
# What a plan on GPUs needs, and an import that makes none does not.
OF_A_PLAN = {"gpuconf.planner.make_plan", "gpuconf.machine.cards.nvml", "gpuconf.machine.leases"}
# All that the import itself takes of the standard library: the last two are compiled into Python.
# typing, re, threading, collections and contextlib, which most modules begin with, cost as much as
# all of ours.
STANDARD = {"__future__", "_collections", "itertools"}
# What reads a file, and a shipped profile that is as it was shipped does not need.
OF_A_FILE = {
    *("gpuconf.profile.document", "gpuconf.profile.yaml_parts", "gpuconf.profile.schema"),
    *("gpuconf.profile.rules", "gpuconf.profile.nodes", "gpuconf.profile.building"),
}

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


def foreign(loaded: Collection[str]) -> set[str]:
    """Those of the ``loaded`` modules that are neither ours nor what the import may take."""
    return {name for name in loaded if name.partition(".")[0] != "gpuconf"} - STANDARD


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
def test_a_shipped_profile(profile: str, tmp_path: Path) -> None:
    """The file is looked at, not parsed; of the standard library next to nothing is loaded."""
    cost = Cost("import gpuconf.auto", tmp_path, profile)
    assert foreign(cost.loaded) == set()
    assert not (HEAVY | OF_NVML | OF_A_PLAN | OF_A_FILE | {"gpuconf.session.leasing"}) & set(
        cost.loaded
    )
    assert not {"gpuconf.planner", "gpuconf.machine.cards", "gpuconf.machine.schedulers"} & set(
        cost.loaded
    )
    assert {"gpuconf.session.configure", "gpuconf.profile.ready_made"} <= set(cost.loaded)
    assert [Path(name).name for name in cost.yaml] == [f"{profile}.yaml"]
    assert cost.nvml_starts == 0


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    """It is parsed, with those parts of PyYAML that do it, and checked; `re` stays out."""
    own = tmp_path / "own.yaml"
    own.write_text(
        "extends: shared-desktop\ndescription: für uns\ngpus: [0]\n"
        "memory: {memory_limit: 4GiB, per_process_gpu_memory_fraction: 0.5, at_least: 10%}\n"
        'env: {TF_CPP_MIN_LOG_LEVEL: "1"}\n'
    )
    cost = Cost("import gpuconf.auto", tmp_path, str(own))
    assert foreign(cost.loaded) == set()
    assert not (HEAVY | OF_NVML | OF_A_PLAN | {"gpuconf.profile.trust"}) & set(cost.loaded)
    assert set(cost.loaded) >= OF_A_FILE
    assert [Path(name).name for name in cost.yaml] == ["own.yaml", "shared-desktop.yaml"]
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
    assert foreign(cost.loaded) == {"cupy"}
    assert not (OF_NVML | OF_A_PLAN | {"gpuconf.session.leasing"}) & set(cost.loaded)
    assert cost.nvml_starts == 0
    assert len(cost.yaml) == 1


def test_the_package_alone_is_nothing(tmp_path: Path) -> None:
    """`import gpuconf` loads nothing but its version until a name is used."""
    cost = Cost("import gpuconf; dir(gpuconf)", tmp_path, "shared-desktop")
    assert cost.loaded == ["__future__", "gpuconf", "gpuconf.version"]
    assert cost.yaml == []


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import argparse", "import gpuconf.commands.cli.plan"])
def test_this_test_can_fail(statement: str, tmp_path: Path) -> None:
    """The check sees one heavy import beside ours, a second start of NVML, a second file."""
    more = "from gpuconf.machine.cards import read_inventory as r; r(); open('/dev/null')"
    spoiled = f"import gpuconf.auto, cupy; {statement}; {more}; gpuconf.load_profile('cpu-only')"
    cost = Cost(spoiled, tmp_path, "shared-desktop")
    assert too_heavy(cost.loaded)
    assert foreign(cost.loaded)
    assert cost.nvml_starts == 2
    assert len(cost.yaml) == 2


@pytest.mark.slow
@pytest.mark.parametrize("module", ["re", "typing", "threading", "yaml", "pynvml"])
def test_a_module_too_many_is_seen(module: str, tmp_path: Path) -> None:
    """The check of a shipped profile sees each of those that were taken out of its way."""
    cost = Cost(f"import gpuconf.auto, {module}", tmp_path, "cpu-only")
    assert module in foreign(cost.loaded)
