"""The second hook: frameworks that come in past our finder; small stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.binding_programs import ROOMY
from tests.programs.processes import Nvml, run_python, write_package
from tests.programs.stand_ins import JAX_WITH_DEVICES, write_torch

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
    past_us = f"sys.meta_path.insert(0, Front())\n{import_it}\nimport wave\n"
    program = f"{past_us}assert capped(torch) == 7884\n"
    run_python(START + program, folder, environ=nvml(ROOMY))


def test_our_finder_is_first_again_and_theirs_is_asked(folder: Path, nvml: Nvml) -> None:
    """Before a framework's import only; other imports leave the order as others have made it."""
    program = """
from gpuconf.session.import_hook import hooks as _hooks
theirs = Front()
sys.meta_path.insert(0, theirs)
import wave
assert sys.meta_path[:2] == [theirs, _hooks]
import torch
assert sys.meta_path[:2] == [_hooks, theirs] and sys.meta_path.count(_hooks) == 1
assert capped(torch) == 7884
"""
    run_python(START + program, folder, environ=nvml(ROOMY))


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


def test_a_callers_environment_is_not_changed(tmp_path: Path, nvml: Nvml) -> None:
    """A program gets what its caller gives it: the variables set so far, and no plan is made."""
    program = """
import gpuconf.auto, gpuconf, os, subprocess, sys
mine = {**os.environ, "X": "1"}
before = dict(mine)
show = "import os; print('SEEN', os.environ['TF_FORCE_GPU_ALLOW_GROWTH'], flush=True)"
subprocess.run([sys.executable, "-c", show], env=mine, check=True)
assert mine == before, set(mine) ^ set(before)
assert gpuconf.activation().plan is None
"""
    assert run_python(program, tmp_path, environ=nvml(ROOMY)).split() == ["SEEN", "true"]


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


def test_other_events_cost_one_look_up_and_cannot_raise(tmp_path: Path) -> None:
    """Of an event that is no import nothing is called, and not even the arguments are read.

    What goes wrong at an import stays with us: it runs within the user's own import.
    """
    program = """
import sys
from gpuconf.session import import_hook
from gpuconf.session.audit_hook import AuditHook

class Unreadable:
    def refuse(self, *args):
        raise RuntimeError("an argument was read")
    __str__ = __repr__ = __eq__ = __hash__ = __getattr__ = __getitem__ = __len__ = refuse

def calls_at(event):
    # Called directly, because Python traces nothing below an audit hook.
    seen = []
    def note(frame, kind, called):
        if kind.endswith("call"):
            seen.append(frame.f_code.co_name if kind == "call" else called.__name__)
    sys.setprofile(note)
    hook._on_event(event, Unreadable())
    sys.setprofile(None)
    return seen[:-1]

def catch_up(name):
    caught.append(name)
    raise RuntimeError("while catching up")

hook, caught = AuditHook(), []
hook.arm(catch_up)
events = ["open", "compile", "object.__getattr__", "os.listdir", "socket.connect", "sys._getframe",
          "marshal.loads", "subprocess.Popen", "importlib", "Import", "any"]
assert [calls_at(event) for event in events] == [["_on_event"]] * len(events)

sys.modules["past_us"] = sys  # a module that came in without its hook
import_hook.on_import("past_us", lambda module: None)
import_hook.hooks.met.discard("past_us")
for event in events:
    sys.audit(event, Unreadable())
assert caught == []
assert "unmet" in calls_at("exec") and caught == ["past_us"]
sys.audit("import", Unreadable())
sys.audit("exec", Unreadable())
import wave
assert set(caught) == {"past_us"} and len(caught) > 3
"""
    run_python(program, tmp_path)
