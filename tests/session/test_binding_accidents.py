"""What other code does to a process at odd moments: stubs, signals, threads, restored variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machine.cards import standin
from tests.programs.binding_programs import FULL, ROOMY, START, TWO, facts
from tests.programs.processes import Nvml, run_python

STUBS = (
    "sys.modules[name] = types.ModuleType(name)",
    "sys.modules[name] = types.SimpleNamespace()",
    "sys.modules[name] = unittest.mock.MagicMock()",
    "sys.modules[name] = None",
    "os.makedirs(name); importlib.import_module(name)",
    'open(f"{name}.py", "w").close(); importlib.import_module(name)',
)

pytestmark = pytest.mark.slow  # starts many programs


def test_what_is_no_framework_is_left_alone(tmp_path: Path, nvml: Nvml) -> None:
    """Neither other imports nor configure() break, nor does the import of the stub itself.

    The real frameworks are out of sight, as a mere folder would not hide them.
    """
    program = f"""
import importlib, shutil, types, unittest.mock
import pynvml
there = [path for path in sys.path if "-packages" not in path]
def check(name, stub):
    before, sys.path[:] = list(sys.path), there
    exec(stub)
    sys.path[:] = before
    import colorsys, wave
    gpuconf.configure("half-card")
    import cupy
    assert bind() == 3942
for name in ("tensorflow", "torch", "jax", "keras"):
    for stub in {STUBS!r}:
        shutil.rmtree(name, ignore_errors=True)
        importlib.invalidate_caches()
        child = os.fork()  # nothing was imported here, so each child is as good as new
        if not child:
            check(name, stub)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, (name, stub)
        if os.path.exists(f"{{name}}.py"):
            os.remove(f"{{name}}.py")
"""
    run_python(START + program, tmp_path, environ=nvml(ROOMY))


def test_a_refused_profile_leaves_the_one_before_held(tmp_path: Path, nvml: Nvml) -> None:
    """All hooks and the audit hook stay: a framework that comes later still meets its plan."""
    program = f"""
import cupy
from gpuconf.session import frameworks
from gpuconf.session import import_hook
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
machine({facts(nvml, FULL)})
for attempt in (lambda: gpuconf.configure("half-card"), lambda: gpuconf.configure(gpus=[5])):
    try:
        attempt()
    except gpuconf.GpuconfError:
        pass
    else:
        raise AssertionError
assert gpuconf.activation().profile == "shared-desktop"
assert set(import_hook.hooks._hooks) == set(frameworks._HOOKS)
assert frameworks._audit_hook._catch_up is not None
try:
    import numba.cuda
except gpuconf.ShortageError:
    pass
else:
    raise AssertionError
"""
    run_python(START + program, tmp_path, environ=nvml(ROOMY))


def test_a_first_profile_that_is_refused_leaves_nothing(tmp_path: Path, nvml: Nvml) -> None:
    """No hook and no audit hook: the program is as if it had not asked."""
    program = """
import cupy
import gpuconf
try:
    gpuconf.configure()
except gpuconf.ShortageError:
    pass
from gpuconf.session import frameworks
from gpuconf.session import import_hook
assert gpuconf.activation() is None and not import_hook.hooks._hooks
assert frameworks._audit_hook._catch_up is None
import numba.cuda
"""
    run_python(program, tmp_path, environ=nvml(FULL))


def test_what_another_thread_did_meanwhile_is_not_undone(tmp_path: Path, nvml: Nvml) -> None:
    """A bind fails while another thread waits to configure: that one's profile stays."""
    program = """
import threading, time
def configure():
    gpuconf.configure("cpu-only")
thread = threading.Thread(target=configure)
def fail(plan):
    thread.start()
    time.sleep(0.3)
    raise RuntimeError
try:
    binding.bind(fail)
except RuntimeError:
    pass
thread.join()
assert gpuconf.activation().profile == "cpu-only" and os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
"""
    run_python(START + program, tmp_path, environ=nvml(ROOMY))


def test_an_environment_that_is_put_back(tmp_path: Path, nvml: Nvml) -> None:
    """As unittest.mock.patch.dict does: our own earlier note is not taken for a parent's."""
    program = f"""
gpuconf.configure("shared-desktop", gpus=[1])
import cupy
saved = dict(os.environ)
gpuconf.configure("cpu-only")
os.environ.clear()
os.environ.update(saved)
gpuconf.configure("shared-desktop", gpus=[0])
import numba.cuda
bind()
assert os.environ["CUDA_VISIBLE_DEVICES"] == {standin.uuid(0)!r}
"""
    run_python(START + program, tmp_path, environ=nvml(TWO))


def test_a_report_without_stale_lines(tmp_path: Path, nvml: Nvml) -> None:
    """What an earlier plan had set and this one does not is not said to be active."""
    program = f"""
gpuconf.configure("shared-desktop", gpus=[0])
import cupy
assert "CUDA_VISIBLE_DEVICES: {standin.uuid(0)}" in str(gpuconf.activation())
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
bind()
assert "CUDA_VISIBLE_DEVICES: {standin.uuid(0)}" not in str(gpuconf.activation())
"""
    run_python(START + program, tmp_path, environ=nvml(TWO))


@pytest.mark.parametrize("value", ["abc", "-1", "nan"])
def test_a_bad_timeout_is_an_error_at_import(value: str, tmp_path: Path, nvml: Nvml) -> None:
    """Not twenty lines into the import of a framework."""
    program = """
try:
    import gpuconf.auto
except Exception as error:
    assert "GPUCONF_NVML_TIMEOUT" in str(error) and "hint:" in str(error)
else:
    raise AssertionError
"""
    environ = {**nvml(ROOMY), "GPUCONF_NVML_TIMEOUT": value}
    run_python(program, tmp_path, environ=environ)


def test_a_shortages_traceback_is_short(tmp_path: Path, nvml: Nvml) -> None:
    """One frame of gpuconf's: those in which it found it out say nothing to a user."""
    program = """
import os, traceback
refused = []
for act in (
    lambda: __import__("cupy"),
    lambda: gpuconf.plan("dedicated"),
    lambda: gpuconf.configure("half-crd"),
    lambda: gpuconf.configure(memory={"keep_fre": 1}),
):
    try:
        act()
    except gpuconf.GpuconfError as error:
        refused.append(type(error).__name__)
        frames = traceback.extract_tb(error.__traceback__)
        package = os.path.dirname(gpuconf.__file__)
        ours = [each for each in frames if each.filename.startswith(package)]
        assert [each.name for each in ours] == ["called"], ours
        assert error.__suppress_context__
assert refused == ["ShortageError", "ShortageError", "ProfileNotFoundError", "ProfileError"]
"""
    run_python(START + program, tmp_path, environ=nvml(FULL))
