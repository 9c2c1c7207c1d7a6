"""What a child process inherits: profile, GPUs, variables, and who wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hardware import standin
from tests.programs.binding_programs import ROOMY, START, TWO
from tests.programs.processes import Nvml, finding, run_python, write_package

CHILD = """
import os, sys
import gpuconf.auto, gpuconf, cupy
print(gpuconf.activation().profile, os.environ.get("CUDA_VISIBLE_DEVICES"),
      (gpuconf.activation().plan.gpus[0].limit_bytes >> 20) if gpuconf.activation().plan.gpus
      else None)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a file of its own, a child program elsewhere, and the framework findable."""
    write_package(
        tmp_path,
        {
            "project/gpuconf.yaml": "extends: shared-desktop\nmemory: {memory_limit: 2GiB}\n",
            "elsewhere/child.py": CHILD,
        },
    )
    return tmp_path


def test_a_child_in_another_folder_has_its_parents_profile(project: Path, nvml: Nvml) -> None:
    """A project's file that the parent found holds for what it starts, wherever that runs."""
    program = f"""
import os, subprocess, sys
os.chdir({str(project / "project")!r})
import gpuconf.auto
for cwd in ({str(project / "elsewhere")!r}, "/"):
    print(subprocess.check_output([sys.executable, {str(project / "elsewhere/child.py")!r}],
                                  cwd=cwd, text=True).strip())
"""
    out = run_python(program, project, environ={**nvml(ROOMY), **finding(project)})
    assert out.splitlines() == ["project None 2048", "project None 2048"]


def test_the_scripts_folder_counts_before_the_current_one(project: Path, nvml: Nvml) -> None:
    """`python project/train.py` takes project/gpuconf.yaml."""
    (project / "project" / "train.py").write_text(CHILD)
    (project / "gpuconf.yaml").write_text("extends: shared-desktop\nmemory: {memory_limit: 3GiB}\n")
    program = """
import subprocess, sys
print(subprocess.check_output([sys.executable, "project/train.py"], text=True).strip())
"""
    out = run_python(program, project, environ={**nvml(ROOMY), **finding(project)})
    assert out.strip() == "project None 2048"


def test_a_relative_path_is_absolute_for_children(tmp_path: Path, nvml: Nvml) -> None:
    """GPUCONF_PROFILE=./lab.yaml and a child in another folder: the same file."""
    (tmp_path / "lab.yaml").write_text("extends: shared-desktop\nmemory: {memory_limit: 2GiB}\n")
    (tmp_path / "child.py").write_text(CHILD)
    program = f"""
import os, subprocess, sys
import gpuconf.auto
assert os.environ["GPUCONF_PROFILE"] == {str(tmp_path / "lab.yaml")!r}
os.chdir("/")
print(subprocess.check_output([sys.executable, {str(tmp_path / "child.py")!r}], text=True))
"""
    environ = {**nvml(ROOMY), "GPUCONF_PROFILE": "./lab.yaml"}
    assert run_python(program, tmp_path, environ=environ).split() == ["lab", "None", "2048"]


def test_who_chooses_the_profile(tmp_path: Path, nvml: Nvml) -> None:
    """An argument or a variable for this process, then the parent's choice, then the default."""
    (tmp_path / "child.py").write_text(CHILD)
    program = f"""
import os, subprocess, sys
import gpuconf
gpuconf.configure("half-card")
def child(**more):
    command = [sys.executable, {str(tmp_path / "child.py")!r}]
    return subprocess.check_output(command, text=True, env={{**os.environ, **more}}).split()[0]
print(child(), child(GPUCONF_PROFILE="notebook"))
assert gpuconf.configure() is gpuconf.configure("shared-desktop")
"""
    for named in ({}, {"GPUCONF_PROFILE": "shared-desktop"}):
        out = run_python(program, tmp_path, environ={**nvml(ROOMY), **named})
        assert out.split() == ["half-card", "notebook"]


def test_again_in_a_child_is_still_the_parents_choice(tmp_path: Path, nvml: Nvml) -> None:
    """configure() after import gpuconf.auto changes nothing in a child either."""
    (tmp_path / "child.py").write_text(
        "import gpuconf.auto, gpuconf\nfirst = gpuconf.activation()\n"
        "assert gpuconf.configure() is first and first.profile == 'half-card', first\n"
    )
    program = f"""
import subprocess, sys
import gpuconf
gpuconf.configure("half-card")
subprocess.run([sys.executable, {str(tmp_path / "child.py")!r}], check=True)
"""
    run_python(program, tmp_path, environ=nvml(ROOMY))


@pytest.mark.parametrize("explicit", [{}, {"CUDA_VISIBLE_DEVICES": "-1"}])
def test_a_hidden_gpu_stays_hidden_in_children(
    explicit: dict[str, str], tmp_path: Path, nvml: Nvml
) -> None:
    """Under a cpu-only parent no child opens the GPUs again, an explicit -1 least of all."""
    (tmp_path / "child.py").write_text(CHILD)
    program = f"""
import os, subprocess, sys
import gpuconf
gpuconf.configure("cpu-only")
environ = {{**os.environ, "GPUCONF_PROFILE": "shared-desktop", **{explicit!r}}}
print(subprocess.check_output([sys.executable, {str(tmp_path / "child.py")!r}],
                              env=environ, text=True, stderr=subprocess.STDOUT))
"""
    out = run_python(program, tmp_path, environ=nvml(ROOMY))
    assert "shared-desktop -1 None" in out


def test_a_child_without_gpus_hides_its_parents_at_once(tmp_path: Path, nvml: Nvml) -> None:
    """``gpus: none`` needs no plan: the import hides the GPUs, whatever the parent has chosen."""
    child = "import os, gpuconf.auto\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\nimport cupy\n"
    child += "print(os.environ['CUDA_VISIBLE_DEVICES'], gpuconf.activation().plan.hides_gpus)\n"
    (tmp_path / "child.py").write_text(child)
    program = f"""
import os, subprocess, sys
import gpuconf
gpuconf.configure("shared-desktop", gpus=[0])
import cupy
assert os.environ["CUDA_VISIBLE_DEVICES"] == {standin.uuid(0)!r}
environ = {{**os.environ, "GPUCONF_PROFILE": "cpu-only"}}
print(subprocess.check_output([sys.executable, {str(tmp_path / "child.py")!r}],
                              env=environ, text=True))
"""
    out = run_python(program, tmp_path, environ=nvml(TWO))
    assert out.split() == ["-1", "-1", "True"]


def test_a_schedulers_value_equal_to_ours_is_not_undone(tmp_path: Path, nvml: Nvml) -> None:
    """The parent wrote a GPU's name, and a scheduler gives a child that name: it gets no more."""
    (tmp_path / "child.py").write_text(CHILD)
    program = f"""
import os, subprocess, sys
import gpuconf
gpuconf.configure("shared-desktop", gpus=[0])
import cupy
environ = {{**os.environ, "CUDA_VISIBLE_DEVICES": {standin.uuid(0)!r},
           "GPUCONF_PROFILE": "dedicated"}}
print(subprocess.check_output([sys.executable, {str(tmp_path / "child.py")!r}],
                              env=environ, text=True))
"""
    out = run_python(program, tmp_path, environ=nvml(TWO))
    assert out.split() == ["dedicated", standin.uuid(0), "7783"]


def test_a_note_of_another_machine_is_ignored(tmp_path: Path, nvml: Nvml) -> None:
    """A login node's note, and the scheduler's own 0: the plan stays on GPU 0."""
    (tmp_path / "child.py").write_text(CHILD)
    program = f"""
import os, subprocess, sys
import gpuconf
gpuconf.configure("cpu-only")
note = os.environ["GPUCONF_STATE"].replace("host=", "host=login-").replace("-1", "0")
environ = {{**os.environ, "GPUCONF_STATE": note, "CUDA_VISIBLE_DEVICES": "0"}}
print(subprocess.check_output([sys.executable, {str(tmp_path / "child.py")!r}],
                              env=environ, text=True))
"""
    out = run_python(program, tmp_path, environ=nvml(TWO))
    assert out.split() == ["shared-desktop", "0", "7884"], out


def test_the_note_names_writer_profile_and_gpus(tmp_path: Path, nvml: Nvml) -> None:
    """What a child can find in GPUCONF_STATE."""
    program = """
from gpuconf.state_note import read_note, this_process
note = read_note(os.environ)
assert note.writer == this_process() and note.writer.pid == os.getpid() and note.writer.boot
assert (note.profile, note.origin, note.gpus) == ("shared-desktop", "shipped", ())
import cupy
note = read_note(os.environ)
assert note.gpus == (gpuconf.activation().plan.gpus[0].gpu.uuid,)
assert {record.name for record in note.records} == set(gpuconf.activation().environment)
"""
    run_python(START + program, tmp_path, environ=nvml(ROOMY))


def test_a_value_that_the_locale_cannot_hold(tmp_path: Path, nvml: Nvml) -> None:
    """One clear error with the cure, and no variable set."""
    (tmp_path / "odd.yaml").write_text("env: {TF_NOTE: 'gr\u00fcn'}\n", encoding="utf-8")
    program = """
import os
before = dict(os.environ)
try:
    import gpuconf.auto
except ValueError as error:
    assert "env.TF_NOTE" in str(error) and "PYTHONUTF8=1" in str(error), error
else:
    raise AssertionError
assert dict(os.environ) == before
"""
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environ = {**nvml(ROOMY), **ascii_only, "GPUCONF_PROFILE": "./odd.yaml"}
    run_python(program, tmp_path, environ=environ)


def test_a_folder_is_no_tf_keras(tmp_path: Path, nvml: Nvml) -> None:
    """A mere folder of that name, and a finder that raises or is old, change nothing."""
    (tmp_path / "tf_keras").mkdir()
    program = """
import os, sys
class Blocks:
    def find_spec(self, name, path, target):  # no default for target
        if name == "tf_keras":
            raise ImportError("blocked")
sys.meta_path.insert(0, Blocks())
from gpuconf.machine_plan import is_installed
sys.path[:] = [path for path in sys.path if "site-packages" not in path]  # where a real one may be
assert not is_installed("tf_keras") and is_installed("json")
import gpuconf
gpuconf.configure("keras-v1-session")
assert "TF_USE_LEGACY_KERAS" not in os.environ
"""
    run_python(program, tmp_path, environ=nvml(ROOMY))
