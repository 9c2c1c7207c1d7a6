"""The second hook: frameworks past our finder, programs about to start; small stand-ins."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gpuconf.session.audit_hook import _only
from tests.machine.cards import standin
from tests.programs.binding_programs import FULL, ROOMY, TWO
from tests.programs.processes import Nvml, finding, run_python, write_package
from tests.programs.stand_ins import JAX_WITH_DEVICES, TORCH, write_torch

pytestmark = pytest.mark.slow  # starts many programs

START = """
import importlib, os, sys
from importlib.machinery import PathFinder
import gpuconf.auto, gpuconf
class Front:
    '''Finds everything itself, as comet_ml's and typeguard's finders do for some names.'''
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, path, target)
def capped(torch):
    torch.cuda._lazy_init()
    return round(torch.cuda.fractions.get(0, 0) * 11264)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the stand-in for torch in it."""
    return write_torch(tmp_path, total_mib=11264)


@pytest.mark.parametrize(
    "import_it",
    [
        "import torch",
        "from torch.nn import value; import torch",
        "torch = importlib.import_module('torch')",
        "torch = __import__('torch')",
    ],
)
def test_a_finder_that_was_put_in_front(import_it: str, folder: Path, nvml: Nvml) -> None:
    """However the framework is imported past our finder, CUDA's start finds the plan's limit."""
    program = f"sys.meta_path.insert(0, Front())\n{import_it}\nassert capped(torch) == 7884\n"
    run_python(START + program, folder, environ=nvml(ROOMY))


def test_our_finder_is_first_again_and_theirs_is_asked(folder: Path, nvml: Nvml) -> None:
    """Before a framework's import only; other imports leave the order as others have made it."""
    program = """
from gpuconf.session.import_hook import _hooks
theirs = Front()
sys.meta_path.insert(0, theirs)
import wave
assert sys.meta_path[:2] == [theirs, _hooks]
import torch
assert sys.meta_path[:2] == [_hooks, theirs] and sys.meta_path.count(_hooks) == 1
assert capped(torch) == 7884
"""
    run_python(START + program, folder, environ=nvml(ROOMY))


def test_a_framework_that_had_started(folder: Path, nvml: Nvml) -> None:
    """torch's cap can still be set after CUDA's start; JAX's cannot, and nothing is set then."""
    write_package(folder, JAX_WITH_DEVICES)
    program = """
import os, torch
torch.cuda._lazy_init()
before = dict(os.environ)
import jax, gpuconf
try:
    import gpuconf.auto
except gpuconf.TooLateError as error:
    assert "too late: JAX initialized its GPU client before gpuconf" in str(error)
assert dict(os.environ) == before
assert gpuconf.activation() is None
del sys.modules["jax"], sys.modules["jax._src.xla_bridge"]
import gpuconf.auto
assert torch.cuda.fractions[0] * 11264 // 1 == 7884
"""
    run_python("import sys\n" + program, folder, environ=nvml(ROOMY))


def test_what_is_caught_up_with_too_late_is_said(folder: Path, nvml: Nvml) -> None:
    """A framework that came in past the hook, with its devices: on stderr and in the report."""
    write_package(folder, JAX_WITH_DEVICES)
    program = """
read, write = os.pipe()
os.dup2(write, 2)
sys.meta_path.insert(0, Front())
jax = importlib.import_module("jax")
import wave
late = [s for s in gpuconf.activation().settings if s.name == "plan of jax"]
assert [s.status for s in late] == ["differs"], late
os.close(write)
os.close(2)
assert b"Its limit can no longer be changed" in os.read(read, 10000)
"""
    run_python(START + program, folder, environ=nvml(ROOMY))


def test_another_thread_is_importing_the_framework(folder: Path, nvml: Nvml) -> None:
    """Its half-made module is left alone, and caught up with when it is whole."""
    slow = f"import time\ntime.sleep(0.5)\n{dedent(TORCH['torch/__init__.py'])}"
    write_package(folder, {"torch/__init__.py": slow})
    program = """
import sys, threading
def work():
    import torch
thread = threading.Thread(target=work)
thread.start()
while "torch" not in sys.modules:
    pass
import gpuconf.auto, gpuconf
thread.join()
import torch, wave
torch.cuda._lazy_init()
assert round(torch.cuda.fractions[0] * 11264) == 7884
"""
    run_python(program, folder, environ=nvml(ROOMY))


# --- programs about to start --------------------------------------------------------------------

STARTS = {
    "subprocess": "subprocess.run(SHOW, check=True)",
    "a copy, and another folder": (
        "os.environ['GPUCONF_PROFILE'] = './x.yaml'; "
        "subprocess.run(SHOW, env={**os.environ}, cwd='/', check=True)"
    ),
    "a copy of the environment": 'subprocess.run(SHOW, env={**os.environ, "X": "1"}, check=True)',
    "os.system": "os.system(shlex.join(SHOW))",
    "os.spawnv": "os.spawnv(os.P_WAIT, SHOW[0], SHOW)",
    "os.execv": "os.execv(SHOW[0], SHOW)",
    "os.fork": "os.waitpid(os.fork() or show(), 0)",
    "pty.spawn": "pty.spawn(SHOW)",
}


@pytest.mark.parametrize("start", STARTS.values(), ids=list(STARTS))
def test_what_is_started_inherits_the_plan(start: str, tmp_path: Path, nvml: Nvml) -> None:
    """A child that knows nothing of gpuconf sees the plan's GPU and its share for JAX."""
    show = (
        "import os; print('SEEN', os.environ.get('CUDA_VISIBLE_DEVICES'), "
        "os.environ.get('XLA_CLIENT_MEM_FRACTION'), flush=True)"
    )
    program = f"""
import os, pty, shlex, subprocess, sys
import gpuconf
gpuconf.configure("shared-desktop", gpus={{"pick": "most-free"}})
SHOW = [sys.executable, "-c", {show!r}]
def show():
    exec({show!r})
    os._exit(0)
{start}
"""
    out = run_python(program, tmp_path, environ=nvml(TWO))
    assert out.split() == ["SEEN", standin.uuid(1), "0.699928939"]


@pytest.mark.parametrize("first", ["import subprocess", "import gpuconf.auto"])
def test_a_callers_environment_is_not_changed(first: str, tmp_path: Path, nvml: Nvml) -> None:
    """The program gets the plan, and the dict stays what it was, whichever is imported first."""
    program = f"""
{first}
import gpuconf.auto, os, subprocess, sys
mine = {{**os.environ, "X": "1"}}
before = dict(mine)
show = "import os; print('SEEN', os.environ['XLA_CLIENT_MEM_FRACTION'], flush=True)"
for _ in range(2):
    subprocess.run([sys.executable, "-c", show], env=mine, check=True)
    assert mine == before, set(mine) ^ set(before)
"""
    out = run_python(program, tmp_path, environ=nvml(ROOMY))
    assert out.split() == ["SEEN", "0.699928939"] * 2


@pytest.mark.parametrize("library", ["multiprocessing", "multiprocess"])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_pool_inherits_the_plan(method: str, library: str, tmp_path: Path, nvml: Nvml) -> None:
    """multiprocessing starts its servers through C; what it imports for that is seen."""
    write_package(
        tmp_path,
        {"looks.py": "import os\ndef look():\n    print(os.environ['CUDA_VISIBLE_DEVICES'])\n"},
    )
    program = f"""
import {library}
if __name__ == "__main__":
    import gpuconf, looks
    gpuconf.configure("shared-desktop", gpus={{"pick": "most-free"}})
    process = {library}.get_context({method!r}).Process(target=looks.look)
    process.start()
    process.join()
"""
    out = run_python(program, tmp_path, environ=nvml(TWO))
    assert out.strip() == standin.uuid(1)


def test_joblibs_workers_inherit_the_plan(tmp_path: Path, nvml: Nvml) -> None:
    """loky does not import the main module: the variables are all that reaches its workers."""
    write_package(
        tmp_path,
        {"looks.py": "import os\ndef look():\n    return os.environ['CUDA_VISIBLE_DEVICES']\n"},
    )
    program = """
import joblib, looks
import gpuconf
if __name__ == "__main__":
    gpuconf.configure("shared-desktop", gpus={"pick": "most-free"})
    print(*joblib.Parallel(n_jobs=2)([joblib.delayed(looks.look)()]))
"""
    out = run_python(program, tmp_path, environ={**nvml(TWO), **finding(tmp_path)})
    assert out.strip() == standin.uuid(1)


@pytest.mark.parametrize("start", ["subprocess.run(['true'], check=True)", "os.system('true')"])
def test_a_full_card_stops_no_program(start: str, tmp_path: Path, nvml: Nvml) -> None:
    """It starts, one line says that it has no limit, and the line is not repeated."""
    program = f"""
import os, subprocess, sys
import gpuconf.auto
read, write = os.pipe()
os.dup2(write, 2)
for _ in range(3):
    {start}
os.close(write)
os.close(2)
said = os.read(read, 10000).decode()
assert said.count("inherit no limit") == 1, said
"""
    run_python(program, tmp_path, environ=nvml(FULL))


def test_what_the_caller_took_out_of_its_copy_stays_out(tmp_path: Path, nvml: Nvml) -> None:
    """A copied environment is brought up to date where the caller left it alone, and only there."""
    program = """
import os, subprocess, sys
import gpuconf
gpuconf.configure("shared-desktop", gpus={"pick": "most-free"})
SHOW = [sys.executable, "-c", "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'),"
        "os.environ.get('TF_FORCE_GPU_ALLOW_GROWTH'))"]
environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
del environ["TF_FORCE_GPU_ALLOW_GROWTH"]
bare = {"PATH": os.environ["PATH"]}
subprocess.run(SHOW, env=environ, check=True)
subprocess.run(SHOW, env=bare, check=True)
assert bare == {"PATH": os.environ["PATH"]}
"""
    out = run_python(program, tmp_path, environ=nvml(TWO))
    assert out.splitlines() == ["0 None", "None None"]


def test_there_is_one_audit_hook(tmp_path: Path, nvml: Nvml) -> None:
    """Configuring again adds none; nothing takes one away."""
    program = """
import sys
hooks = []
sys.addaudithook(lambda event, args: hooks.append(event) if event == "sys.addaudithook" else None)
import gpuconf.auto, gpuconf
gpuconf.configure("half-card")
gpuconf.configure("notebook")
assert len(hooks) == 1, hooks
"""
    run_python(program, tmp_path, environ=nvml(ROOMY))


def test_other_events_are_left_alone() -> None:
    """Python has hundreds of thousands of them; the work is done for ours only."""
    seen: list[str] = []
    hook = _only(frozenset({"import"}), lambda event, _args: seen.append(event))
    for event in ("open", "import", "builtins.id", "object.__getattr__"):
        hook(event, ())
    assert seen == ["import"]
