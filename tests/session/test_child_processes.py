"""What a child process inherits: profile, GPUs, variables, and who wrote them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.machine.cards import standin
from tests.programs.binding_programs import ROOMY, START, TWO
from tests.programs.processes import Nvml, finding, run, run_python, write_package

pytestmark = pytest.mark.slow  # starts many programs

CHILD = """
import os, sys
import gpuconf.auto, gpuconf, cupy
print(gpuconf.activation().profile, os.environ.get("CUDA_VISIBLE_DEVICES"),
      (gpuconf.activation().plan.gpus[0].limit_bytes >> 20) if gpuconf.activation().plan.gpus
      else None)
"""


PROJECT = "extends: shared-desktop\nmemory: {memory_limit: 2GiB}\n"


def child_of(
    parent: str,
    folder: Path,
    environ: Mapping[str, str],
    *,
    child: str = CHILD,
    cwd: str | None = None,
    **more: str,
) -> str:
    """What a child prints, with ``more`` variables and in ``cwd``, of a program that runs these
    lines and then starts it.  Each of ``more`` is an expression, evaluated in the parent."""
    (folder / "child.py").write_text(child)
    program = f"""
{parent}
import os, subprocess, sys
more = {{name: eval(value) for name, value in {more!r}.items()}}
command = [sys.executable, {str(folder / "child.py")!r}]
print(subprocess.check_output(command, cwd={cwd!r}, env={{**os.environ, **more}}, text=True,
                              stderr=subprocess.STDOUT).strip())
"""
    return run_python(program, folder, environ={**environ, **finding(folder)}).strip()


def test_a_child_in_another_folder_has_its_parents_profile(tmp_path: Path, nvml: Nvml) -> None:
    """A project's file that the parent found holds for what it starts, wherever that runs."""
    write_package(tmp_path, {"project/gpuconf.yaml": PROJECT, "elsewhere/file": ""})
    parent = f"import os; os.chdir({str(tmp_path / 'project')!r}); import gpuconf.auto"
    for cwd in (str(tmp_path / "elsewhere"), "/"):
        assert child_of(parent, tmp_path, nvml(ROOMY), cwd=cwd) == "project None 2048"


def test_the_scripts_folder_counts_before_the_current_one(tmp_path: Path, nvml: Nvml) -> None:
    """`python project/train.py` takes project/gpuconf.yaml."""
    other = PROJECT.replace("2GiB", "3GiB")
    files = {"project/gpuconf.yaml": PROJECT, "project/train.py": CHILD, "gpuconf.yaml": other}
    write_package(tmp_path, files)
    environ = {**nvml(ROOMY), **finding(tmp_path)}
    done = run([sys.executable, "project/train.py"], tmp_path, environ=environ)
    assert done.stdout == "project None 2048\n", done.stderr


def test_a_relative_path_is_absolute_for_children(tmp_path: Path, nvml: Nvml) -> None:
    """GPUCONF_PROFILE=./lab.yaml and a child in another folder: the same file."""
    write_package(tmp_path, {"lab.yaml": PROJECT})
    parent = f"""
import os
import gpuconf.auto
assert os.environ["GPUCONF_PROFILE"] == {str(tmp_path / "lab.yaml")!r}
"""
    environ = {**nvml(ROOMY), "GPUCONF_PROFILE": "./lab.yaml"}
    assert child_of(parent, tmp_path, environ, cwd="/") == "lab None 2048"


def test_a_relative_path_again(tmp_path: Path, nvml: Nvml) -> None:
    """A cell that is run twice, and the same rules under another name, are not too late."""
    write_package(tmp_path, {"lab.yaml": PROJECT, "copy.yaml": PROJECT})
    program = """
import gpuconf, os
first = gpuconf.configure()
import cupy
os.environ["GPUCONF_PROFILE"] = "./lab.yaml"
assert gpuconf.configure() is first is gpuconf.configure("copy.yaml")
"""
    environ = {**nvml(ROOMY), "GPUCONF_PROFILE": "lab.yaml", "PYTHONPATH": str(tmp_path)}
    run_python(program, tmp_path, environ=environ)


HALF_CARD = "import gpuconf\ngpuconf.configure('half-card')"


@pytest.mark.parametrize("named", [{}, {"GPUCONF_PROFILE": "shared-desktop"}])
def test_who_chooses_the_profile(named: dict[str, str], tmp_path: Path, nvml: Nvml) -> None:
    """An argument or a variable for this process, then the parent's choice, then the default."""
    environ = {**nvml(ROOMY), **named}
    assert child_of(HALF_CARD, tmp_path, environ).startswith("half-card ")
    chosen = child_of(HALF_CARD, tmp_path, environ, GPUCONF_PROFILE="'notebook'")
    assert chosen.startswith("notebook ")
    run_python(
        f"{HALF_CARD}\nassert gpuconf.configure() is gpuconf.configure('shared-desktop')",
        tmp_path,
        environ=environ,
    )


def test_again_in_a_child_is_still_the_parents_choice(tmp_path: Path, nvml: Nvml) -> None:
    """configure() after import gpuconf.auto changes nothing in a child either."""
    child = """
import gpuconf.auto, gpuconf
first = gpuconf.activation()
print(gpuconf.configure() is first, first.profile)
"""
    assert child_of(HALF_CARD, tmp_path, nvml(ROOMY), child=child) == "True half-card"


@pytest.mark.parametrize("explicit", [{}, {"CUDA_VISIBLE_DEVICES": "'-1'"}])
def test_a_hidden_gpu_stays_hidden_in_children(
    explicit: dict[str, str], tmp_path: Path, nvml: Nvml
) -> None:
    """Under a cpu-only parent no child opens the GPUs again, an explicit -1 least of all."""
    parent = "import gpuconf\ngpuconf.configure('cpu-only')"
    explicit = {"GPUCONF_PROFILE": "'shared-desktop'", **explicit}
    assert "shared-desktop -1 None" in child_of(parent, tmp_path, nvml(ROOMY), **explicit)


CHOOSES = f"""
import gpuconf, os
gpuconf.configure("shared-desktop", gpus=[0])
import cupy
assert os.environ["CUDA_VISIBLE_DEVICES"] == {standin.uuid(0)!r}
"""


def test_a_child_without_gpus_hides_its_parents_at_once(tmp_path: Path, nvml: Nvml) -> None:
    """``gpus: none`` needs no plan: the import hides the GPUs, whatever the parent has chosen."""
    child = "import os, gpuconf.auto\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\nimport cupy\n"
    child += "print(os.environ['CUDA_VISIBLE_DEVICES'], gpuconf.activation().plan.hides_gpus)\n"
    out = child_of(CHOOSES, tmp_path, nvml(TWO), child=child, GPUCONF_PROFILE="'cpu-only'")
    assert out.split() == ["-1", "-1", "True"]


def test_a_schedulers_value_equal_to_ours_is_not_undone(tmp_path: Path, nvml: Nvml) -> None:
    """The parent wrote a GPU's name, and a scheduler gives a child that name: it gets no more."""
    more = {"CUDA_VISIBLE_DEVICES": repr(standin.uuid(0)), "GPUCONF_PROFILE": "'dedicated'"}
    out = child_of(CHOOSES, tmp_path, nvml(TWO), **more)
    assert out.split() == ["dedicated", standin.uuid(0), "7783"]


def test_a_note_of_another_machine_is_ignored(tmp_path: Path, nvml: Nvml) -> None:
    """A login node's note, and the scheduler's own 0: the plan stays on GPU 0."""
    note = "os.environ['GPUCONF_STATE'].replace('host=', 'host=login-').replace('-1', '0')"
    parent = "import gpuconf\ngpuconf.configure('cpu-only')"
    more = {"GPUCONF_STATE": note, "CUDA_VISIBLE_DEVICES": "'0'"}
    out = child_of(parent, tmp_path, nvml(TWO), **more)
    assert out.split() == ["shared-desktop", "0", "7884"], out


def test_the_note_names_writer_profile_and_gpus(tmp_path: Path, nvml: Nvml) -> None:
    """What a child can find in GPUCONF_STATE."""
    program = """
from gpuconf.basics.state_note import read_note, this_process
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
import os, sys, yaml
class Blocks:
    def find_spec(self, name, path, target):  # no default for target
        if name == "tf_keras":
            raise ImportError("blocked")
sys.meta_path.insert(0, Blocks())
from gpuconf.session.environment import is_installed
sys.path[:] = [path for path in sys.path if "site-packages" not in path]  # where a real one may be
assert not is_installed("tf_keras") and is_installed("json")
import gpuconf
gpuconf.configure("keras-v1-session")
assert "TF_USE_LEGACY_KERAS" not in os.environ
"""
    run_python(program, tmp_path, environ=nvml(ROOMY))
