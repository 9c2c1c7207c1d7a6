"""``gpuconf doctor``: its words, options and exit codes."""

from __future__ import annotations

import json
import re
import shlex
import socket
import sys
import venv
from pathlib import Path

import pytest
import yaml

from gpuconf.basics.units import GIB
from gpuconf.commands.doctor.checks import CHECKS
from gpuconf.commands.doctor.facts import TensorFlowBuild
from gpuconf.commands.doctor.gathering.builds import read_tensorflow_build
from gpuconf.commands.doctor.gathering.libraries import wanted_sonames
from tests.commands.cli.commands import Done, Job, run_jobs
from tests.commands.doctor.doctor_commands import troubles
from tests.commands.doctor.doctor_trees import library, machine, package, process
from tests.programs.processes import Nvml, run_python, write_package

pytestmark = pytest.mark.slow  # waits for programs

GROWTH = {"TF_FORCE_GPU_ALLOW_GROWTH": "1"}
BARE, BROKEN = "{folder}/bare", "{folder}/broken"

# TF_ is Terraform's too.
PERSONAL = {
    "KERAS_HOME": "{folder}/keras",
    "TF_CONFIG": "/scratch/zaphod/x",
    "LOGNAME": "zaphod",
    "TF_VAR_db_password": "swordfish",
    "NVIDIA_API_KEY": "swordfish",
}

# Each by a name, on a machine without a driver.  Many in one process, because starting one costs.
ON_NO_GPU = {
    "text": Job(["doctor", "--root", BARE]),
    "document": Job(["doctor", "--json", "--root", BARE]),
    "table": Job(["doctor", "--list-checks"]),
    "listed": Job(["doctor", "--list-checks", "--json"]),
    "listed GPUs": Job(["doctor", "--list-checks", "--json", "cards"]),
    "warned": Job(["doctor", "environment.growth"], GROWTH),
    "strictly warned": Job(["doctor", "environment.growth", "--strict"], GROWTH),
    "strictly fine": Job(["doctor", "environment.growth", "--strict"]),
    "with a script": Job(["doctor", "--json", "--script", "bad.py"]),
    "another python": Job(["doctor", "--json", "packages", "--python", "{folder}/my env"]),
    "an empty python": Job(["doctor", "packages", "--python", "{folder}/empty/bin/python"]),
}
# Likewise, on a machine with a GPU that drives its display.
ON_DESKTOP = {
    "variables": Job(["doctor", "environment"], {**GROWTH, "CUDA_VISIBLE_DEVICES": "0,0"}),
    "group": Job(["doctor", "--json", "host", "driver.cuda"]),
    "one": Job(["doctor", "--json", "environment.visible-devices"]),
    "near": Job(["doctor", "--json", "enviroment"]),
    "far": Job(["doctor", "xyzzy"]),
    "end": Job(["doctor", "visible_device"]),
    "dedicated": Job(["doctor", "--json", "profile", "cards.display", "--profile", "dedicated"]),
    "misspelt": Job(["doctor", "--profile", "sharred-desktop"]),
    "misspelt in plan": Job(["plan", "sharred-desktop"]),
    "refused": Job(["doctor", "--json", "--profile", "bad.yaml", "host"]),
    "nobody's": Job(["doctor", "--json", "profile"], {"GPUCONF_PROFILE": "nobody"}),
    "unsound": Job(["doctor", "profile"], {"GPUCONF_PROFILE": "{folder}/bad.yaml"}),
    "page": Job(["doctor", "host", "--report", "page.html"], PERSONAL),
    "no page": Job(["doctor", "--json", "host", "--report", "/proc/page.html"]),
    "broken": Job(["doctor", "--json", "--root", BROKEN, "host"]),
}
REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, nvml: Nvml) -> dict[str, Done]:
    """What the commands above left behind, by their names."""
    folder = tmp_path_factory.mktemp("commands")
    torn = {**process(4242, "python3"), "/proc/4242/stat": "4242 (python3) S 1 0 0\n"}
    machine(folder / "bare")
    machine(folder / "broken", **torn)
    (folder / "bad.yaml").write_text("memory: {memory_limt: 2GiB}\n")
    (folder / "bad.py").write_text("import tensorflow as tf\nimport gpuconf.auto\n")
    for name in ("my env", "empty"):
        venv.create(folder / name, symlinks=True)
    (packages,) = (folder / "my env").glob("lib/python*/site-packages")
    write_package(packages, {**package("torch", "2.8.0"),
                             **package("torchvision", "0.24.1", ["torch==2.9.1"])})  # fmt: skip
    found: dict[str, Done] = {}
    for scenario, jobs in (("no_library", ON_NO_GPU), ("desktop", ON_DESKTOP)):
        placed = [_placed(job, folder) for job in jobs.values()]
        results = run_jobs(folder, *placed, environ=nvml(scenario))
        found.update(zip(jobs, results, strict=True))
    found["page"] = found["page"]._replace(out=(folder / "page.html").read_text(encoding="utf-8"))
    return found


def _placed(job: Job, folder: Path) -> Job:
    """``job`` with its places below ``folder``, which is its home too."""
    words = [word.replace("{folder}", str(folder)) for word in job.arguments]
    places = {name: text.replace("{folder}", str(folder)) for name, text in job.environ.items()}
    return Job(words, places)


def test_a_machine_without_a_gpu_has_no_problem(done: dict[str, Done]) -> None:
    """Two lines, no warning, exit 0, nothing on stderr; with all checks, packages included."""
    text, document = done["text"], done["document"]
    assert text.out.splitlines()[:2] == [
        "no NVIDIA GPU here: programs run on the CPU",
        "No problems found.",
    ]
    assert f"\n{sys.executable} (Python 3." in text.out
    assert (text.code, text.err, document.code, document.err) == (0, "", 0, "")
    found = document.document
    assert troubles(found) == {}
    assert {each["id"] for each in found["findings"]} == {check.id for check in CHECKS}
    driver = next(each for each in found["findings"] if each["id"] == "driver.present")
    assert driver["status"] == "skip"
    assert found["gpus"] == []


def test_another_python_is_looked_at(done: dict[str, Done]) -> None:
    """Its packages, read without an import; the fix takes its own pip; gpuconf need not be there.

    With no framework in it there is a warning, and a command that looks at another.
    """
    document = done["another python"].document
    findings = {each["id"]: each for each in document["findings"]}
    frameworks = findings["packages.frameworks"]
    path = document["versions"]["Python's path"]
    assert (frameworks["status"], path.endswith("/my env/bin/python")) == ("ok", True)
    assert frameworks["summary"].startswith(f"{path} (Python 3.")
    assert frameworks["summary"].endswith(", virtual environment): PyTorch 2.8.0")
    assert document["versions"]["torch"] == "2.8.0"
    assert findings["packages.requirements"]["fix"].startswith(f"'{path}' -m pip install 'torch")
    assert "--python" in document["command"]
    empty = done["an empty python"]
    assert empty.code == 0
    assert "WARN   packages.frameworks  no TensorFlow, Keras, PyTorch or JAX in /" in empty.out
    assert "fix: gpuconf doctor --python " in empty.out


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory, nvml: Nvml) -> str:
    """A folder of libraries that open, for each that the installed TensorFlow wants, and NVML."""
    folder = tmp_path_factory.mktemp("cuda")
    build = read_tensorflow_build(sys.path) or TensorFlowBuild()
    newest = "8999" if build.cudnn_version == "8" else "99900"
    for soname in wanted_sonames(build).values():
        library(folder / soname, cudnn=newest)
    return f"{nvml('desktop')['LD_LIBRARY_PATH']}:{folder}"


def test_a_sound_desktop(cuda: str, tmp_path: Path, nvml: Nvml) -> None:
    """A GPU, a driver and all libraries: no problems, and the GPU is shown with its bar."""
    root = str(machine(tmp_path / "root"))
    environ = {**nvml("desktop"), "LD_LIBRARY_PATH": cuda}
    jobs = [Job(["doctor", "--root", root, *more]) for more in ([], ["-v"], ["--json"])]
    text, verbose, document = run_jobs(tmp_path, *jobs, environ=environ)
    assert troubles(document.document) == {}
    assert (text.code, document.code) == (0, 0)
    assert text.out.startswith("No problems found.\n\nGPU  NAME")
    assert "GeForce RTX 3060" in text.out
    assert "pid 4242 python3 uses 2048 MiB" in text.out
    assert text.out.splitlines()[-1].startswith("profile shared-desktop (nothing else is set); ")
    for check in CHECKS:
        assert check.id in verbose.out
        assert check.id not in text.out
    assert "limit = " in verbose.out


def test_problems_first_each_with_its_fix(done: dict[str, Done]) -> None:
    """Failures before warnings, the fix on a line of its own, and exit 1."""
    lines = done["variables"].out.splitlines()
    assert done["variables"].code == 1
    assert lines[0].startswith("FAIL   environment.visible_devices  CUDA_VISIBLE_DEVICES=0,0")
    fix = lines.index("       fix: export TF_FORCE_GPU_ALLOW_GROWTH=true")
    assert lines[fix - 2].startswith("WARN   environment.growth  TF_FORCE_GPU_ALLOW_GROWTH=1")
    assert fix < next(place for place, line in enumerate(lines) if line.startswith("OK"))
    assert not any(line.startswith("GPU  NAME") for line in lines)


def test_checks_by_id_and_by_their_first_part(done: dict[str, Done]) -> None:
    """Just those, also with a dash for an underscore; an unknown one is refused with advice."""
    assert [each["id"] for each in done["group"].document["findings"]] == [
        "driver.cuda",
        "host.memory",
        "host.shared_memory",
    ]
    (one,) = done["one"].document["findings"]
    assert one["id"] == "environment.visible_devices"
    assert [done[name].code for name in ("near", "far", "end")] == [2, 2, 2]
    assert "did you mean `gpuconf doctor environment`?" in done["near"].document["error"]["hint"]
    assert "--list-checks" in done["far"].err
    assert "did you mean" not in done["far"].err
    assert "`gpuconf doctor environment.visible_devices`" in done["end"].err


def test_the_list_of_checks(done: dict[str, Done]) -> None:
    """Every id with a line, those of scripts and of the probe too; narrowed by a first part."""
    ids = [each["id"] for each in done["listed"].document["checks"]]
    assert {check.id for check in CHECKS} < set(ids)
    assert {"source", "live"} < {each.split(".")[0] for each in ids}
    assert all(name in done["table"].out for name in ids)
    narrowed = [each["id"] for each in done["listed GPUs"].document["checks"]]
    assert narrowed == [check.id for check in CHECKS if check.id.startswith("cards.")]


def test_strict_exits_1_on_a_warning(done: dict[str, Done]) -> None:
    """A warning alone is exit 0 without it; nothing to warn of is 0 with it."""
    names = ("warned", "strictly warned", "strictly fine")
    assert [done[name].code for name in names] == [0, 1, 0]


def test_bad_usage_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    """Exit 2, with what to write instead."""
    (tmp_path / "empty").mkdir()
    jobs = [Job(["doctor", *shlex.split(words)]) for words in REFUSED]
    for refused, (words, reason) in zip(run_jobs(tmp_path, *jobs), REFUSED.items(), strict=True):
        assert (refused.code, refused.out) == (2, ""), words
        assert reason in refused.err, words


def test_a_profile_may_be_named(done: dict[str, Done]) -> None:
    """The plan is that profile's; one that is not there or broken is refused as by ``plan``."""
    dedicated = done["dedicated"].document
    assert dedicated["profile"]["name"] == "dedicated"
    assert dedicated["command"] == "gpuconf doctor profile cards.display --profile dedicated"
    assert done["misspelt"][:3] == done["misspelt in plan"][:3]
    assert done["misspelt"].code == 2
    assert "did you mean shared-desktop?" in done["misspelt"].err
    assert done["refused"].code == 2
    assert done["refused"].document["error"]["hint"] == "write `memory_limit`"


def test_a_profile_of_the_environment_that_is_refused_is_a_finding(done: dict[str, Done]) -> None:
    """With the hint that the refusal has."""
    nobody = done["nobody's"].document
    assert done["nobody's"].code == 1
    assert nobody["profile"] is None
    assert troubles(nobody) == {"profile.choice": "fail"}
    assert done["unsound"].code == 1
    assert "hint: write `memory_limit`" in done["unsound"].out


def test_a_probe_that_breaks_down_is_a_finding(done: dict[str, Done]) -> None:
    """A file in /proc as no kernel writes it: exit 3, and every check ran anyway."""
    document = done["broken"].document
    assert done["broken"].code == 3
    assert troubles(document) == {"facts.processes": "crash"}
    assert document["counts"]["crash"] == 1
    assert len(document["findings"]) == 3


def test_a_script_is_read_along(done: dict[str, Done]) -> None:
    """Its findings stand next to the machine's; alone: test_doctor_many_scripts."""
    found = {each["id"] for each in done["with a script"].document["findings"]}
    assert {"driver.present", "source.auto_late"} <= found


def test_the_page_tells_nothing_of_the_person(done: dict[str, Done]) -> None:
    """The home folder is ~ in it, host and account have no name, and no secret is in it."""
    page = done["page"]
    assert page.err == "wrote page.html\n"
    assert "<html" in page.out
    assert "~/keras" in page.out
    assert "/scratch/&lt;user&gt;/x" in page.out
    assert "zaphod" not in page.out
    assert "swordfish" not in page.out
    assert not re.search(rf"(?<![\w-]){re.escape(socket.gethostname())}(?![\w-])", page.out)


def test_a_page_that_cannot_be_written_is_an_error(done: dict[str, Done]) -> None:
    """There is one document anyway, and the exit code says that something failed."""
    assert done["no page"].code == 2
    assert "/proc" in done["no page"].err
    assert done["no page"].document


def test_the_doctor_starts_nvml_once(tmp_path: Path, nvml: Nvml) -> None:
    """On a machine without persistence mode each start takes a second."""
    log = tmp_path / "log"
    run_jobs(tmp_path, Job(["doctor", "cards"]), environ=nvml("desktop", log=log))
    assert log.read_text().split() == ["init", "shutdown"]


def test_what_gpuconf_set_itself_is_no_conflict(tmp_path: Path, nvml: Nvml) -> None:
    """In a child of a program under a profile, its own variables are not held against the user."""
    program = """
    import subprocess, sys, gpuconf.auto
    command = [sys.executable, "-m", "gpuconf", "doctor", "--json", "environment", "profile"]
    print(subprocess.run(command, capture_output=True, text=True).stdout)
    """
    out = run_python(program, tmp_path, environ=nvml("unequal_cards"))
    document = json.loads(out)
    assert troubles(document) == {"environment.device_order": "warn"}
    assert "TF_FORCE_GPU_ALLOW_GROWTH" not in document["environment"]
    assert document["gpus"][1]["limit_bytes"] > 7 * GIB
