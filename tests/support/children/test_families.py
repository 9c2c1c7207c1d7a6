"""The end of a child and its family, by each command's way, in a fresh process each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.programs.card_clients import wait_until
from tests.programs.processes import (
    Nvml,
    Program,
    Start,
    clean_environment,
    interruptible,
    is_alive,
    run_python,
    write_package,
)
from tests.support.children.hard_children import HARD, NAMES, OTHER_NAMES, OTHERS, STANDIN, WAYS

pytestmark = pytest.mark.slow  # waits for programs

Begin = Callable[[str], Program]


@pytest.fixture
def environ(nvml: Nvml, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A machine with a GPU and a stand-in TensorFlow; afterwards nothing is left of the test."""
    write_package(tmp_path, {**STANDIN, "hard.sh": HARD})
    more = {
        **nvml("desktop"),
        "PYTHONPATH": str(tmp_path / "standin"),
        "GPUCONF_DISABLE": "1",
        "FOLDER": str(tmp_path),
    }
    yield clean_environment(tmp_path, more)
    for name in (*NAMES, *OTHER_NAMES):
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(pid_of(tmp_path, name), signal.SIGKILL)


@pytest.fixture
def begin(start: Start, environ: dict[str, str], tmp_path: Path) -> Begin:
    """Start a process that goes this way, among children of its own user's."""

    def begin_one(way: str) -> Program:
        program = tmp_path / "way.py"
        program.write_text(OTHERS + WAYS[way], encoding="utf-8")
        command = interruptible([sys.executable, str(program)])
        return start(command, environ, stdout=subprocess.DEVNULL)

    return begin_one


def pid_of(folder: Path, name: str) -> int:
    """The process that wrote its number to this file."""
    return int((folder / name).read_text(encoding="utf-8"))


def living(folder: Path) -> tuple[str, ...]:
    """Those that are alive, of the family and of others."""
    return tuple(name for name in (*NAMES, *OTHER_NAMES) if is_alive(pid_of(folder, name)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "time-out"])
def test_our_own_end_ends_them_all(
    way: str, number: signal.Signals, begin: Begin, tmp_path: Path
) -> None:
    """Own sessions, ignored signals, stopped ones, orphans: gone.  The user's others: alive."""
    process = begin(way)
    wait_until(lambda: (tmp_path / "gone").exists() or process.poll() is not None)
    assert living(tmp_path) == (*NAMES, *OTHER_NAMES), process.log
    process.send_signal(number)
    process.communicate(timeout=60)
    assert living(tmp_path) == OTHER_NAMES
    expected = -signal.SIGINT if number is signal.SIGINT else 128 + number
    assert process.returncode == expected, process.log


def test_a_time_out_ends_them_all(begin: Begin, tmp_path: Path) -> None:
    """As above, where it is the child's time that is up."""
    process = begin("time-out")
    process.communicate(timeout=60)
    assert process.returncode == 0, process.log
    assert living(tmp_path) == OTHER_NAMES


def test_a_second_signal_does_not_cut_the_end_short(begin: Begin, tmp_path: Path) -> None:
    """Ctrl-C again and again, as impatient people do."""
    process = begin("doctor")
    wait_until((tmp_path / "gone").exists)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    process.communicate()
    assert living(tmp_path) == OTHER_NAMES


def test_an_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    """Under `nohup` the terminal's end ends nothing, and afterwards the handlers are as before."""
    program = (
        "import os, signal\n"
        "from gpuconf.support.children.signals import sigterm_as_exit, held_back\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with sigterm_as_exit(), held_back():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
        "try:\n"
        "    with sigterm_as_exit(), held_back():\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        print('held', flush=True)\n"
        "except SystemExit as stop:\n"
        "    print(stop.code)\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
    )
    assert run_python(program, tmp_path) == "held\n143\n"


def test_a_signal_that_others_swallow_ends_us_all_the_same(tmp_path: Path) -> None:
    """C++ code makes another error of the exception, or none: the exit code is the signal's."""
    program = (
        "import os, signal\n"
        "from gpuconf.support.children.family import AdoptingFamily\n"
        "from gpuconf.support.children.signals import sigterm_as_exit\n"
        "for block in (sigterm_as_exit, AdoptingFamily):\n"
        "    for is_another in (True, False):\n"
        "        try:\n"
        "            with block():\n"
        "                try:\n"
        "                    os.kill(os.getpid(), signal.SIGTERM)\n"
        "                except SystemExit:\n"
        "                    if is_another:\n"
        "                        raise SystemError('a result with an exception set')\n"
        "            print('continued')\n"
        "        except SystemExit as stop:\n"
        "            print(stop.code)\n"
    )
    assert run_python(program, tmp_path) == 4 * "143\n"


def test_families_in_one_process_are_apart(tmp_path: Path) -> None:
    """The end of one within another, as in the demo, leaves the other's orphans alone."""
    program = (
        "import os, time\nfrom pathlib import Path\n"
        "from gpuconf.support.children.family import AdoptingFamily\n"
        "orphan = '(setsid sh -c \"echo \\\\$\\\\$ >NAME; exec sleep 600\" &) ; sleep 600'\n"
        "def alive(name): return Path('/proc', Path(name).read_text().strip(), 'cwd').exists()\n"
        "def start(family, name):\n"
        "    family.start(['sh', '-c', orphan.replace('NAME', name)], os.environ)\n"
        "    while not Path(name).exists() or not Path(name).read_text().strip():\n"
        "        time.sleep(0.02)\n"
        "with AdoptingFamily() as outer:\n"
        "    with AdoptingFamily() as inner:\n"
        "        start(outer, 'outer')\n"
        "        start(inner, 'inner')\n"
        "    assert alive('outer') and not alive('inner')\n"
        "assert not alive('outer')\n"
        "assert outer.is_gone and inner.is_gone\n"
    )
    run_python(program, tmp_path)
