"""When a plan binds, without TensorFlow: a stand-in NVML, and an ``apply`` that notes its plan."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuconf.basics.environment import NO_RESERVE_VARIABLE, RUN_VARIABLE
from gpuconf.basics.units import MIB
from gpuconf.planner import GpuPlan
from gpuconf.profile import load_profile
from gpuconf.session import run_variable
from gpuconf.session.binding import Binding
from gpuconf.session.plans import plan_within
from tests.machine.cards import standin
from tests.planner.cards import card
from tests.planner.cards import machine as planned_machine
from tests.programs.binding_programs import CARD, FULL, HALF, ROOMY, START, TWO, facts, with_rules
from tests.programs.processes import Nvml, run, run_python


def test_old_figures_are_read_anew_when_devices_are_made(tmp_path: Path, nvml: Nvml) -> None:
    """The limit is of the moment of binding; after that it stays, whatever the GPU does."""
    program = f"""
import cupy
assert gpuconf.activation().plan.gpus[0].limit_bytes >> 20 == 7884
machine({facts(nvml, HALF)})
grow_old()
assert bind() == 4112
machine({facts(nvml, ROOMY)})
grow_old()
assert bind() == 4112 and plans[0] is plans[1] is gpuconf.activation().plan
assert gpuconf.plan() is plans[0]  # not a plan that counts our own memory as others'
machine({facts(nvml, FULL)})
import numba.cuda  # no shortage any more: nothing is planned again
"""
    run_python(START + program, tmp_path, environ=nvml(ROOMY))


def test_one_framework_allocates_the_reserve_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of a process, again only in a new allocator; none where memory is measured."""
    binding, gpu = Binding(), GpuPlan(card(), preallocated_bytes=MIB)
    assert not binding.claim_reserve(gpu._replace(preallocated_bytes=0), "torch")
    monkeypatch.setenv(NO_RESERVE_VARIABLE, "1")
    assert not binding.claim_reserve(gpu, "torch")
    monkeypatch.delenv(NO_RESERVE_VARIABLE)
    assert binding.claim_reserve(gpu, "jax")
    assert not binding.claim_reserve(gpu, "jax")
    assert binding.claim_reserve(gpu, "jax", again=True)
    assert not binding.claim_reserve(gpu, "torch", again=True)
    assert binding.claim_reserve(gpu._replace(gpu=card(1)), "torch")
    binding.after_fork()
    assert binding.claim_reserve(gpu, "torch")


def test_debugging_shows_the_limit_once(tmp_path: Path, nvml: Nvml) -> None:
    """Where the plan binds, however often it is requested; and no word of it otherwise."""
    program = f"{START}\nimport cupy\nassert bind() == bind() == 7884\n"
    for value, count in (("debug", 1), ("", 0)):
        environ = {**nvml(ROOMY), "GPUCONF_LOG": value}
        done = run([sys.executable, "-c", program], tmp_path, environ=environ)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("profile shared-desktop: limit of GPU 0: 7884 MiB") == count
        assert "leases are not counted" not in done.stderr


@pytest.mark.parametrize(("lease", "looks"), [("false", 1), ("true", 2)])
def test_fresh_figures_are_read_again_only_for_a_lease(
    lease: str, looks: int, tmp_path: Path
) -> None:
    """Devices made right after the import stand on its figures; a lease stands on what others
    have leased, so NVML is asked once more while nobody else can take one."""
    log = tmp_path / "nvml.log"
    environ = standin.environment(ROOMY, tmp_path / "standin", log=log)
    environ |= with_rules(tmp_path, f"lease: {lease}")
    program = "import cupy\nassert bind() == 7884\nassert bind() == 7884\n"
    run_python(START + program, tmp_path, environ=environ)
    assert log.read_text().split().count("init") == looks


def test_the_figures_of_a_run_do_not_age(tmp_path: Path) -> None:
    """The plan of the import binds, however long it took: a run's figures are the same for all of
    its life, and NVML is not asked."""
    inventory = planned_machine(card(0))
    plan = plan_within(load_profile("half-card"), {}, environ={}, read=lambda: inventory)
    log = tmp_path / "nvml.log"
    environ = standin.environment(ROOMY, tmp_path / "standin", log=log)
    environ[RUN_VARIABLE] = run_variable.encode(plan, inventory, {}, "/somewhere")
    program = f"""
import cupy
before = gpuconf.activation().plan
grow_old()
assert bind() == {(plan.gpus[0].limit_bytes or 0) >> 20}
assert plans[0] is before
"""
    run_python(START + program, tmp_path, environ=environ)
    assert not log.exists()


@pytest.mark.parametrize("is_old", [False, True])
def test_without_a_driver_nothing_is_planned_for_a_lease(
    is_old: bool, tmp_path: Path, nvml: Nvml
) -> None:
    """Where NVML cannot be asked there is nothing to lease: fresh figures stay, and no ledger is
    made."""
    program = f"""
import cupy
before = gpuconf.activation().plan
if {is_old}:
    grow_old()
assert bind() is None
assert (plans[0] is before) is not {is_old}
assert not os.path.exists(os.environ["GPUCONF_LEASES"])
"""
    run_python(START + program, tmp_path, environ=nvml("no_library"))


def test_a_driver_that_answers_later_gets_its_lease(tmp_path: Path, nvml: Nvml) -> None:
    """A plan without figures at the import, and one with a lease at the devices."""
    program = f"""
import cupy
assert gpuconf.activation().plan.unknown_gpu is not None
machine({facts(nvml, ROOMY)})
grow_old()
assert bind() == 7884
assert len(os.listdir(os.path.join(os.environ["GPUCONF_LEASES"], {standin.uuid(0)!r}))) == 1
"""
    run_python(START + program, tmp_path, environ=nvml("driver_not_loaded"))


@pytest.mark.parametrize("module", ["cupy", "numba.cuda"])
def test_a_shortage_is_one_where_a_framework_is_imported(
    module: str, tmp_path: Path, nvml: Nvml
) -> None:
    """A program on a full GPU runs until then, and what it starts too; then every try fails."""
    program = f"""
import subprocess
subprocess.run([sys.executable, "-c", "pass"], check=True)
for _ in range(2):
    try:
        import {module}
    except gpuconf.ShortageError as error:
        assert "not enough GPU memory" in str(error)
    else:
        raise AssertionError
machine({facts(nvml, ROOMY)})
import {module}
assert bind() == 7884
"""
    run_python(START + program, tmp_path, environ=nvml(FULL))


@pytest.mark.slow
def test_binding_waits_as_the_profile_says(tmp_path: Path, nvml: Nvml) -> None:
    """Full when devices are made, free a moment later: `wait` applies at the binding too."""
    program = f"""
import cupy, threading
machine({facts(nvml, FULL)})
grow_old()
threading.Timer(0.5, machine, [{facts(nvml, HALF)}]).start()
assert bind() == 4112
"""
    environ = {**nvml(ROOMY), **with_rules(tmp_path, "on_shortage: {wait: 1min}")}
    run_python(START + program, tmp_path, environ=environ)


def test_a_forked_child_binds_for_itself(tmp_path: Path, nvml: Nvml) -> None:
    """Before and after its parent has bound: a limit of its own moment, within its parent's GPU.

    What the parent has leased, and uses nothing of, is not the child's to take.
    """

    def other(used_mib: int) -> str:
        used = used_mib * MIB
        stranger = standin.Process(os.getpid(), "compute", used, "")  # so the use is attributed
        card = TWO.cards[1]._replace(used=used, processes=(stranger,))
        return facts(nvml, standin.Machine((CARD, card)))

    program = f"""
import cupy
STRICT = {{"memory_limit": "4GiB", "reserve": None}}
gpuconf.configure("shared-desktop", gpus={{"pick": "most-free"}}, memory=STRICT)
import numba.cuda
chosen = os.environ["CUDA_VISIBLE_DEVICES"]
def in_a_child(facts, limit):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            machine(facts)
            assert bind() == limit, bind()
            assert os.environ["CUDA_VISIBLE_DEVICES"] == chosen
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.__stderr__)
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
in_a_child({other(7000)}, 11264 - 7000 - 512 - 640)
assert bind() == 4096
in_a_child({other(2000)}, 11264 - 2000 - (4096 + 640) - 512 - 640)
assert bind() == 4096
"""
    run_python(START + program, tmp_path, environ=nvml(TWO))


@pytest.mark.slow
@pytest.mark.parametrize("lease", [True, False])
def test_a_fork_while_a_thread_waits_for_memory(lease: bool, tmp_path: Path, nvml: Nvml) -> None:
    """The child inherits a lock that nobody there will ever release; it must not wait for it.

    In the line for a lease it comes after its parent, as anyone else does, and gets its own.
    """
    rules = f"on_shortage: {{wait: 1h}}, memory_limit: 2GiB, lease: {str(lease).lower()}"
    machine = tmp_path / "machine.txt"
    machine.write_text(Path(nvml(FULL)["STANDIN_NVML"]).read_text())
    program = f"""
import signal, threading, time
from pathlib import Path
def wait_long():
    import cupy
thread = threading.Thread(target=wait_long, daemon=True)
thread.start()
def is_waiting():
    frame = sys._current_frames()[thread.ident]
    # and in no import, whose lock is Python's own
    return frame.f_code.co_name == {"_pause" if lease else "wait_for_plan"!r}
while not is_waiting():
    time.sleep(0.01)
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    Path("roomy.txt").write_text(Path({facts(nvml, ROOMY)}).read_text())
    os.replace("roomy.txt", {str(machine)!r})
    assert bind() == 2048
    gpuconf.configure("half-card")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
os._exit(0)
"""
    environ = {**nvml(FULL), "STANDIN_NVML": str(machine), **with_rules(tmp_path, rules)}
    run_python(START + program, tmp_path, environ=environ)


@pytest.mark.slow
def test_variables_of_other_threads_survive_a_failed_wait(tmp_path: Path, nvml: Nvml) -> None:
    """What is undone is ours alone."""
    program = """
import threading
threading.Timer(0.3, lambda: os.environ.update(THEIRS="1")).start()
try:
    import cupy
except gpuconf.ShortageError as error:
    assert "gave up after 2s" in str(error)
else:
    raise AssertionError
assert os.environ["THEIRS"] == "1"
"""
    environ = {**nvml(FULL), **with_rules(tmp_path, "on_shortage: {wait: 2s}")}
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
import contextlib, io
import cupy
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
with contextlib.redirect_stderr(io.StringIO()) as said:
    bind()
assert [gpu.gpu.index for gpu in plans[-1].gpus] == [1]
lines = said.getvalue().splitlines()
again = "gpuconf: CUDA_VISIBLE_DEVICES=1 was set after gpuconf was imported; planning again"
assert lines == [again], lines
"""
    run_python(START + program, tmp_path, environ=nvml(TWO))


def test_a_pick_is_made_again_until_cuda_has_started(tmp_path: Path, nvml: Nvml) -> None:
    """Two programs that start together pick one GPU; the second to bind takes the other."""
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
