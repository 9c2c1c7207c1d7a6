"""When a plan binds, without TensorFlow: a stand-in NVML, and an ``apply`` that notes its plan."""

from __future__ import annotations

from pathlib import Path

import pytest
import standin
from processes import Nvml, finding, run_python, write_package

from gpuconf.units import MIB

CARD = standin.Card(standin.uuid(0), total=11264 * MIB, reserved=0, used=1945 * MIB)
ROOMY = standin.Machine((CARD,))
FULL = standin.Machine((CARD._replace(used=11000 * MIB),))
HALF = standin.Machine((CARD._replace(used=6000 * MIB),))
TWO = standin.Machine((CARD, CARD._replace(uuid=standin.uuid(1), used=100 * MIB)))

# What every program begins with: a framework beside it, other machines to look at, a bind.
START = """
import os, sys
import gpuconf.auto, gpuconf
from gpuconf import bootstrap
from gpuconf.binding import FRESH_S
binding = bootstrap._binding
plans = []
def bind():
    binding.bind(plans.append)
    return plans[-1].gpus[0].limit_bytes >> 20 if plans[-1].gpus else None
def machine(facts):
    os.environ["STANDIN_NVML"] = facts
def grow_old():
    binding._state = binding._state._replace(planned_at=binding._clock() - 2 * FRESH_S)
"""


@pytest.fixture(autouse=True)
def _frameworks(tmp_path: Path) -> None:
    """Frameworks of which only the import matters."""
    write_package(
        tmp_path, {"cupy.py": "value = 1\n", "numba/__init__.py": "", "numba/cuda.py": ""}
    )


def facts(nvml: Nvml, machine: standin.Machine) -> str:
    """The file that makes NVML see ``machine`` from now on."""
    return repr(nvml(machine)["STANDIN_NVML"])


def test_old_figures_are_read_anew_when_devices_are_made(tmp_path: Path, nvml: Nvml) -> None:
    """The limit is of the moment of binding; after that it stays, whatever the card does."""
    program = f"""
import cupy
assert gpuconf.activation().plan.gpus[0].limit_bytes >> 20 == 7884
machine({facts(nvml, HALF)})
grow_old()
assert bind() == 4240
machine({facts(nvml, ROOMY)})
grow_old()
assert bind() == 4240 and plans[0] is plans[1] is gpuconf.activation().plan
assert gpuconf.plan() is plans[0]  # not a plan that counts our own memory as others'
machine({facts(nvml, FULL)})
import numba.cuda  # no shortage any more: nothing is planned again
"""
    run_python(START + program, tmp_path, environ=nvml(ROOMY))


def test_fresh_figures_are_not_read_twice(tmp_path: Path) -> None:
    """NVML is started once for an import and the devices that are made right after it."""
    log = tmp_path / "nvml.log"
    environ = standin.environment(ROOMY, tmp_path / "standin", log=log)
    run_python(START + "import cupy\nassert bind() == 7884\n", tmp_path, environ=environ)
    assert log.read_text().split().count("init") == 1


@pytest.mark.parametrize("module", ["cupy", "numba.cuda"])
def test_a_shortage_is_one_where_a_framework_is_imported(
    module: str, tmp_path: Path, nvml: Nvml
) -> None:
    """A program on a full card runs until then, and what it starts too; then every try fails."""
    program = f"""
import subprocess
subprocess.run([sys.executable, "-c", "pass"], check=True)
for _ in range(2):
    try:
        import {module}
    except gpuconf.ShortageError as error:
        assert "not enough memory" in str(error)
    else:
        raise AssertionError
machine({facts(nvml, ROOMY)})
import {module}
assert bind() == 7884
"""
    run_python(START + program, tmp_path, environ=nvml(FULL))


def test_binding_waits_as_the_profile_says(tmp_path: Path, nvml: Nvml) -> None:
    """Full when devices are made, free a moment later: `wait` applies at the binding too."""
    (tmp_path / "waiting.yaml").write_text(
        "extends: shared-desktop\nmemory: {on_shortage: {wait: 1min}}\n"
    )
    program = f"""
import cupy, threading
machine({facts(nvml, FULL)})
grow_old()
threading.Timer(0.5, machine, [{facts(nvml, HALF)}]).start()
assert bind() == 4240
"""
    environ = {**nvml(ROOMY), "GPUCONF_PROFILE": "./waiting.yaml"}
    run_python(START + program, tmp_path, environ=environ)


def test_a_forked_child_binds_for_itself(tmp_path: Path, nvml: Nvml) -> None:
    """Before and after its parent has bound: a limit of its own moment, within its parent's GPU."""
    program = f"""
import cupy
gpuconf.configure("shared-desktop", gpus={{"pick": "most-free"}})
import numba.cuda
chosen = os.environ["CUDA_VISIBLE_DEVICES"]
def in_a_child(check):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check()
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.__stderr__)
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
def check():
    machine({facts(nvml, standin.Machine((CARD, TWO.cards[1]._replace(used=6000 * MIB))))})
    assert bind() == 4240, bind()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == chosen
in_a_child(check)
assert bind() == 7884
in_a_child(check)
assert bind() == 7884
"""
    run_python(START + program, tmp_path, environ=nvml(TWO))


def test_a_fork_while_a_thread_waits_for_memory(tmp_path: Path, nvml: Nvml) -> None:
    """The child inherits a lock that nobody there will ever release; it must not wait for it."""
    (tmp_path / "waiting.yaml").write_text(
        "extends: shared-desktop\nmemory: {on_shortage: {wait: 1h}}\n"
    )
    program = f"""
import signal, threading, time
def wait_long():
    import cupy
thread = threading.Thread(target=wait_long, daemon=True)
thread.start()
def is_waiting():
    frame = sys._current_frames()[thread.ident]
    return frame.f_code.co_name == "wait_for_plan"  # and in no import, whose lock is Python's own
while not is_waiting():
    time.sleep(0.01)
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    machine({facts(nvml, ROOMY)})
    assert bind() == 7884
    gpuconf.configure("half-card")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
os._exit(0)
"""
    environ = {**nvml(FULL), "GPUCONF_PROFILE": "./waiting.yaml"}
    run_python(START + program, tmp_path, environ=environ)


def test_variables_of_other_threads_survive_a_failed_wait(tmp_path: Path, nvml: Nvml) -> None:
    """What is undone is ours alone."""
    (tmp_path / "waiting.yaml").write_text(
        "extends: shared-desktop\nmemory: {on_shortage: {wait: 2s}}\n"
    )
    program = """
import threading
threading.Timer(0.3, lambda: os.environ.update(THEIRS="1")).start()
try:
    import cupy
except gpuconf.ShortageError as error:
    assert "waited 2s in vain" in str(error)
else:
    raise AssertionError
assert os.environ["THEIRS"] == "1"
"""
    environ = {**nvml(FULL), "GPUCONF_PROFILE": "./waiting.yaml"}
    run_python(START + program, tmp_path, environ=environ)


def test_another_profile_set_after_our_line(tmp_path: Path, nvml: Nvml) -> None:
    """GPUCONF_PROFILE set by the script before devices are made is the profile that binds."""
    program = """
import cupy
os.environ["GPUCONF_PROFILE"] = "half-card"
assert bind() == 3942
assert gpuconf.activation().profile == "half-card"
"""
    run_python(START + program, tmp_path, environ=nvml(ROOMY))


def test_visible_devices_set_after_the_import(tmp_path: Path, nvml: Nvml) -> None:
    """The plan is made for the GPU that the script names, and one line says so."""
    program = """
import cupy
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
bind()
assert [gpu.gpu.index for gpu in plans[-1].gpus] == [1]
"""
    run_python(START + program, tmp_path, environ=nvml(TWO))


def test_a_pick_is_made_again_until_cuda_has_started(tmp_path: Path, nvml: Nvml) -> None:
    """Two programs that start together pick one card; the second to bind takes the other."""
    other = standin.Machine((CARD, TWO.cards[1]._replace(used=9000 * MIB)))
    program = f"""
gpuconf.configure("shared-desktop", gpus={{"pick": "most-free"}})
import cupy
assert os.environ["CUDA_VISIBLE_DEVICES"] == {standin.uuid(1)!r}
machine({facts(nvml, other)})
grow_old()
bind()
assert os.environ["CUDA_VISIBLE_DEVICES"] == {standin.uuid(0)!r}
"""
    run_python(START + program, tmp_path, environ=nvml(TWO))


INTERRUPT = """
import gpuconf.import_hook as import_hook
HERE = os.path.dirname(gpuconf.__file__)
# Pure: it reads a file, thousands of lines of ours, and sets nothing.
PURE = os.path.join(HERE, "profile", "")

def state():
    made = gpuconf.activation()
    return (dict(os.environ), made, str(made), made.plan, binding.is_bound,
            binding.environment._has_own_note(), list(sys.meta_path),
            list(import_hook._hooks._hooks))

def interrupted_at(number, function):
    '''Run the function, with KeyboardInterrupt at that line of ours; False if it has fewer.'''
    seen = 0
    def trace(frame, event, arg):
        nonlocal seen
        file = frame.f_code.co_filename
        if not file.startswith(HERE) or file.startswith(PURE):
            return None
        if event == "line":
            seen += 1
            if seen == number:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

def at_every_line(function):
    before, number = state(), 1
    while interrupted_at(number, function):
        assert state() == before, (number, [
            (a, b) for a, b in zip(before, state()) if a != b])
        number += 1
    return number - 1
"""


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_the_binding(tmp_path: Path, nvml: Nvml) -> None:
    """Environment, activation and hooks are as they were; the next try binds."""
    program = f"""
sys.stderr = open(os.devnull, "w")
import cupy
machine({facts(nvml, HALF)})
os.environ["GPUCONF_PROFILE"] = "half-card"
half = binding._state.load()
binding._state = binding._state._replace(load=lambda: half)  # read once: YAML takes its time
grow_old()
lines = at_every_line(lambda: binding.bind(plans.append))
assert binding.is_bound and gpuconf.activation().profile == "half-card"
assert lines > 300, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_the_planning(tmp_path: Path, nvml: Nvml) -> None:
    """The same before a framework's import: nothing is half-set, the next import plans."""
    program = """
sys.stderr = open(os.devnull, "w")
import gpuconf.planner, gpuconf.hardware.cuda_driver  # their own imports are not the point
lines = at_every_line(binding.prepare)
assert gpuconf.activation().plan is not None and lines > 200, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)


@pytest.mark.slow
def test_an_interrupt_at_any_line_of_configure(tmp_path: Path, nvml: Nvml) -> None:
    """Another profile that is interrupted on its way leaves the one before in force."""
    program = """
sys.stderr = open(os.devnull, "w")
lines = at_every_line(lambda: gpuconf.configure("cpu-only"))
assert gpuconf.activation().profile == "cpu-only" and lines > 300, lines
"""
    run_python(START + INTERRUPT + program, tmp_path, environ=nvml(TWO), timeout_s=300)


# --- what children inherit ----------------------------------------------------------------------

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
