"""``gpuconf doctor --script`` over files and folders, and its forms for programs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from gpuconf.commands.doctor.examination import ExaminationRequest, examine
from tests.commands.cli.commands import Done, Job, run_jobs
from tests.programs.processes import Nvml, write_package

pytestmark = pytest.mark.slow  # waits for programs

GROWTH = {"TF_FORCE_GPU_ALLOW_GROWTH": "1"}
VALUE = "TF_FORCE_GPU_ALLOW_GROWTH=1 is ignored by TensorFlow, which reads only true and false"
GROWN = """import os
os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"
"""
PROJECT = {
    "bad.py": "import tensorflow as tf\nimport gpuconf.auto\n",
    "project/fine.py": "print(1)\n",
    "project/.venv/lib/x.py": "import",
    "project/50%, new/grown.py": f"{GROWN}\n{GROWN}",
    "project/a.ipynb": json.dumps(
        {"nbformat": 4, "cells": [{"cell_type": "code", "source": GROWN}] * 2}
    ),
}
(HOOK,) = yaml.safe_load(
    (Path(__file__).parents[3] / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
)
JOBS = {
    "hook": Job([*shlex.split(HOOK["entry"])[1:], *HOOK["args"], "bad.py", "project/a.ipynb"]),
    **{
        name: Job(["doctor", *words.split()], GROWTH)
        for name, words in {
            "many scripts": "source --script bad.py project",
            "many scripts, document": "--format json --script bad.py project source",
            "annotations": "--format=github --strict source --script bad.py project",
            "annotations of the machine": "--format=github environment.growth",
            "refused, as a document": "--format json --script missing.py",
        }.items()
    },
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, nvml: Nvml) -> dict[str, Done]:
    """What the commands above left behind, by their names; all in one process."""
    folder = tmp_path_factory.mktemp("scripts")
    write_package(folder, PROJECT)
    environ = {**nvml("no_library"), "GITHUB_WORKSPACE": str(folder)}
    return dict(zip(JOBS, run_jobs(folder, *JOBS.values(), environ=environ), strict=True))


def test_many_scripts(done: dict[str, Done]) -> None:
    """Files and folders in one call: findings name the file, one line says how many there are.

    A word behind them that names a check and no file is a check.
    """
    text, document = done["many scripts"], done["many scripts, document"].document
    counted = "4 files read for 9 patterns, 3 with findings"
    assert text.code == 0
    assert f"\n{counted}\n" in text.out
    assert "OK  " not in text.out
    assert f"project/50%, new/grown.py:2: {VALUE}" in text.out
    assert {each["id"].split(".")[0] for each in document["findings"]} == {"source"}
    grown = [each for each in document["findings"] if each["id"] == "source.refused_value"]
    places = [[(place["line"], place["cell"]) for place in each["places"]] for each in grown]
    assert places == [[(2, 1), (2, 2)], [(2, None), (5, None)]]
    assert [each["summary"] for each in document["findings"] if each["id"] == "source.clean"] == [
        counted
    ]
    assert json.loads(done["refused, as a document"].out)["error"]["message"].endswith(
        "no such file"
    )


def test_a_large_folder_shows_how_far_it_is(tmp_path: Path) -> None:
    """A line on stderr for each hundred scripts; none at the end, where the findings are."""
    for number in range(250):
        (tmp_path / f"{number}.py").touch()
    lines: list[str] = []
    request = ExaminationRequest(ids=("source",), scripts=(str(tmp_path),))
    examine(request, environ={}, progress=lines.append)
    assert lines == ["100 of 250 scripts read", "200 of 250 scripts read"]


def test_the_hook_of_pre_commit(done: dict[str, Done]) -> None:
    """Its words, with the files behind them: a warning fails, since nothing else is shown."""
    assert done["hook"].code == 1
    assert "WARN   source.auto_late  bad.py:2: " in done["hook"].out
    assert "a.ipynb:cell 1:2" in done["hook"].out
    assert set(HOOK["types_or"]) == {"python", "jupyter"}


def test_annotations(done: dict[str, Done]) -> None:
    """A line for each problem as GitHub reads them, from the checkout; the exit code as always."""
    found = done["annotations"]
    late, cells, grown = found.out.splitlines()
    assert late.startswith(
        "::warning file=bad.py,line=2,endLine=2,title=source.auto_late::`import gpuconf.auto` "
    )
    assert grown.startswith(
        "::warning file=project/50%25%2C new/grown.py,line=2,endLine=2,title=source.refused_value::"
    )
    assert "/50%25, new/grown.py:5%0Afix" in grown
    assert cells.startswith("::warning file=project/a.ipynb,title=source.refused_value::cell 1:2: ")
    assert (found.code, found.err) == (1, "")
    machine = done["annotations of the machine"]
    assert machine.out.startswith("::warning title=environment.growth::TF_FORCE_GPU_ALLOW_GROWTH")
    assert machine.code == 0
