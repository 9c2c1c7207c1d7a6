"""A program's own leases, from its profile to the ledger's files, over a stand-in NVML."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.machine.cards import standin
from tests.programs.binding_programs import FULL, ROOMY, START, TWO, facts, with_rules
from tests.programs.processes import Nvml, finding, run, run_python, write_package

pytestmark = pytest.mark.slow  # starts many programs

# Another program, which leases 4000 MiB of the GPU that is its argument, until its input ends.
HOLDER = """
import sys
from gpuconf.machine.leases.folder import find_folder
from gpuconf.machine.leases.ledger import Ledger
ledger = Ledger(find_folder())
with ledger.mutex.held():
    ledger.take({sys.argv[1]: 4000 << 20}, {"program": "other.py"}, 1)
print("held", flush=True)
sys.stdin.read()
"""
BEGIN = f"""{START}
import subprocess
LEDGER, CARD = os.environ["GPUCONF_LEASES"], {standin.uuid(0)!r}
def start_other():
    command = [sys.executable, "holder.py", CARD]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"held\\n"
    return other
def end(other):
    other.communicate()
def sizes():
    folder = os.path.join(LEDGER, CARD)
    names = os.listdir(folder) if os.path.exists(folder) else []
    fields = [name.split(".") for name in names]
    return [(each[0], int(each[5]) >> 20) for each in fields if each[3] == str(os.getpid())]
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    """The other program, and shared-desktop with its whole limit reserved."""
    strict = "extends: shared-desktop\nmemory: {reserve: null}\n"
    write_package(tmp_path, {"holder.py": HOLDER, "gpuconf.yaml": strict})


@pytest.mark.parametrize(
    ("rule", "limit", "lease"),
    [
        ("lease: true", 9319 - 4000 - 512 - 640, 9319 - 4000 - 512),
        ("lease: null", 9319 - 4000 - 512 - 640, 9319 - 4000 - 512),
        ("lease: false", 7884, None),
    ],
)
def test_what_another_program_has_leased(
    rule: str, limit: int, lease: int | None, tmp_path: Path, nvml: Nvml
) -> None:
    """It is not ours, and what is left is leased as the devices are made, not before.

    A program that leases nothing does not count it either.
    """
    program = f"""
other = start_other()
import cupy
assert sizes() == []
assert bind() == {limit}, bind()
assert sizes() == {[] if lease is None else [("lease", lease)]}, sizes()
shown = str(gpuconf.activation())
assert ("reserved by pid %d other.py" % other.pid in shown) is {lease is not None}, shown
end(other)
assert bind() == {limit} and len(sizes()) == {int(lease is not None)}
"""
    environ = {**nvml(ROOMY), **with_rules(tmp_path, f"reserve: null, {rule}")}
    run_python(BEGIN + program, tmp_path, environ=environ)


def test_a_program_without_leases_makes_no_ledger(tmp_path: Path, nvml: Nvml) -> None:
    """Neither as it starts others, nor as it initializes its GPUs."""
    program = """
os.system("true")
assert bind() == 7884
assert not os.path.exists(LEDGER)
"""
    environ = {**nvml(ROOMY), **with_rules(tmp_path, "reserve: null, lease: false")}
    run_python(BEGIN + program, tmp_path, environ=environ)


def test_a_program_that_makes_no_devices_leases_nothing(tmp_path: Path, nvml: Nvml) -> None:
    """Nor does it make a ledger: it imports a framework and starts others."""
    program = """
import cupy
os.system("true")
assert gpuconf.activation().plan.gpus[0].lease_bytes == (7884 + 640) << 20
assert not os.path.exists(LEDGER)
"""
    run_python(BEGIN + program, tmp_path, environ=nvml(ROOMY))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["mine/train.py"], "train.py"),
        (["-m", "mine"], "mine"),
        (["-c", "import mine.train"], os.path.basename(sys.executable)),
    ],
)
def test_others_see_which_program_holds_a_lease(
    words: list[str], name: str, tmp_path: Path, nvml: Nvml
) -> None:
    """Its script; a package that is run has a file like every other package's."""
    program = f"""{START}
from pathlib import Path
import cupy
bind()
(lease,) = Path(os.environ["GPUCONF_LEASES"]).rglob("lease.*")
assert "program={name}" in lease.read_text().splitlines(), lease.read_text()
"""
    files = dict.fromkeys(("mine/__main__.py", "mine/train.py"), program)
    write_package(tmp_path, {"mine/__init__.py": "", **files})
    environ = {**nvml(ROOMY), **finding(tmp_path)}
    done = run([sys.executable, *words], tmp_path, environ=environ)
    assert done.returncode == 0, done.stderr


def test_a_shortage_says_who_has_leased_the_card(tmp_path: Path, nvml: Nvml) -> None:
    """With the program's name; nothing is held then, and the next try may succeed."""
    program = """
other = start_other()
for _ in range(2):
    try:
        bind()
    except gpuconf.ShortageError as error:
        assert f"pid {other.pid} other.py (" in error.held_by, error.held_by
        assert ": 4000 MiB reserved" in str(error), error
        assert "gpuconf ps" in error.hint
    else:
        raise AssertionError
    assert sizes() == []
end(other)
assert bind() == 7884
assert sizes() == [("lease", 7884 + 640)]
"""
    environ = {**nvml(ROOMY), **with_rules(tmp_path, "reserve: null, at_least: 6GiB")}
    run_python(BEGIN + program, tmp_path, environ=environ)


def test_another_profile_lets_go_of_what_a_wait_has_leased(tmp_path: Path, nvml: Nvml) -> None:
    """An import that waits leases at the end of the line; a profile without GPUs holds nothing."""
    program = f"""
import threading
threading.Timer(0.5, machine, [{facts(nvml, ROOMY)}]).start()
import cupy
assert sizes() == [("lease", 7884 + 640)], sizes()
gpuconf.configure(gpus="none")
assert sizes() == []
gpuconf.configure("half-card")
assert bind() == 3942
assert sizes() == [("lease", 3942 + 640)]
"""
    rules = "reserve: null, on_shortage: {wait: 1min}"
    environ = {**nvml(FULL), **with_rules(tmp_path, rules)}
    run_python(BEGIN + program, tmp_path, environ=environ)


@pytest.mark.parametrize("listed", [False, True])
def test_visible_devices_set_after_the_gpus_were_listed(
    listed: bool, tmp_path: Path, nvml: Nvml
) -> None:
    """CUDA has read them by then: the leases are of the GPUs that the framework has."""
    program = f"""
LISTED = {listed}
if LISTED:
    binding.bind(plans.append, only_lists=True)
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
other = start_other()
bind()
cards = [CARD, {standin.uuid(1)!r}] if LISTED else [{standin.uuid(1)!r}]
assert [gpu.gpu.uuid for gpu in plans[-1].gpus] == cards
mine = [card for card in cards if any(
    name.split(".")[3] == str(os.getpid()) for name in os.listdir(os.path.join(LEDGER, card)))]
assert mine == cards
assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
end(other)
"""
    run_python(BEGIN + program, tmp_path, environ=nvml(TWO))


@pytest.mark.parametrize(
    ("attempt", "lease"),
    [
        ('gpuconf.configure(memory={"memory_limit": "2GiB"}); binding.bind(refuse)', 2048 + 640),
        (
            "binding.take(free, lambda: free, then=lambda: refuse(0), undo=lambda is_first: None)",
            7884 + 640,
        ),
    ],
)
def test_a_step_that_fails_leaves_the_lease_of_the_plan_in_force(
    tmp_path: Path, nvml: Nvml, attempt: str, lease: int
) -> None:
    """Of the new plan where the framework refuses it, of the one before where a profile fails."""
    program = f"""
from gpuconf.session.configure import _load
bind()
before = sizes()
assert len(before) == 1
free = _load(None, {{"memory": {{"lease": False}}}})
def refuse(plan):
    raise RuntimeError
try:
    {attempt}
except RuntimeError:
    pass
assert sizes() == [("lease", {lease})], sizes()
assert gpuconf.activation().plan.gpus[0].lease_bytes >> 20 == {lease}
before = sizes()
gpuconf.configure(memory={{"memory_limit": "3GiB"}})
bind()
assert len(sizes()) == 1 and sizes() != before, sizes()
"""
    run_python(BEGIN + program, tmp_path, environ=nvml(ROOMY))
