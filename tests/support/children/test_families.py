"""The end of a child and its family, by each command's way, in a fresh process each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.programs.processes import Nvml, clean_environment, interruptible, write_package
from tests.support.children.hard_children import HARD, NAMES, OTHER_NAMES, OTHERS, STANDIN, WAYS

pytestmark = pytest.mark.slow  # waits for programs


@pytest.fixture
def environ(nvml: Nvml, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A machine with a card and a stand-in TensorFlow; afterwards nothing is left of the test."""
    write_package(tmp_path, {"standin/tensorflow/__init__.py": STANDIN, "hard.sh": HARD})
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


def begin(way: str, environ: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that goes this way, among children of its own user's."""
    program = folder / "way.py"
    program.write_text(OTHERS + WAYS[way], encoding="utf-8")
    return subprocess.Popen(
        interruptible([sys.executable, str(program)]),
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def pid_of(folder: Path, name: str) -> int:
    """The process that wrote its number to this file."""
    return int((folder / name).read_text(encoding="utf-8"))


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead but not yet waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def living(folder: Path, names: tuple[str, ...]) -> list[str]:
    """Those of them that are alive."""
    return [name for name in names if is_alive(pid_of(folder, name))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "time-out"])
def test_our_own_end_ends_them_all(
    way: str, number: signal.Signals, environ: dict[str, str], tmp_path: Path
) -> None:
    """Own sessions, ignored signals, stopped ones, orphans: gone.  The user's others: alive."""
    process = begin(way, environ, tmp_path)
    while not (tmp_path / "gone").exists():
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.02)
    assert living(tmp_path, NAMES) == list(NAMES)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert living(tmp_path, NAMES) == []
    assert living(tmp_path, OTHER_NAMES) == list(OTHER_NAMES)
    expected = -signal.SIGINT if number is signal.SIGINT else 128 + number
    assert process.returncode == expected, said.decode()


def test_a_time_out_ends_them_all(environ: dict[str, str], tmp_path: Path) -> None:
    """As above, where it is the child's time that is up."""
    process = begin("time-out", environ, tmp_path)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said.decode()
    assert living(tmp_path, NAMES) == []
    assert living(tmp_path, OTHER_NAMES) == list(OTHER_NAMES)


def test_a_second_signal_does_not_cut_the_end_short(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """Ctrl-C again and again, as impatient people do."""
    process = begin("doctor", environ, tmp_path)
    while not (tmp_path / "gone").exists():
        assert process.poll() is None
        time.sleep(0.02)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    process.communicate()
    assert living(tmp_path, NAMES) == []
    assert living(tmp_path, OTHER_NAMES) == list(OTHER_NAMES)


def words_of(program: str, home: Path) -> list[bytes]:
    """The words that a program prints, which must end well."""
    command = [sys.executable, "-c", program]
    environ = clean_environment(home)
    return subprocess.run(command, env=environ, capture_output=True, check=True).stdout.split()


def test_an_ignored_hangup_stays_ignored(tmp_path: Path) -> None:
    """Under `nohup` the terminal's end ends nothing, and afterwards the handlers are as before."""
    program = (
        "import os, signal\n"
        "from gpuconf.support.children.signals import ended_in_order, held_back\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with ended_in_order(), held_back():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
        "try:\n"
        "    with ended_in_order(), held_back():\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        print('held', flush=True)\n"
        "except SystemExit as stop:\n"
        "    print(stop.code)\n"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n"
    )
    assert words_of(program, tmp_path) == [b"held", b"143"]


def test_a_signal_that_others_swallow_ends_us_all_the_same(tmp_path: Path) -> None:
    """C++ code makes another error of the exception, or none: the exit code is the signal's."""
    program = (
        "import os, signal\n"
        "from gpuconf.support.children.family import ProcessFamily\n"
        "from gpuconf.support.children.signals import ended_in_order\n"
        "for block in (ended_in_order, ProcessFamily):\n"
        "    for is_another in (True, False):\n"
        "        try:\n"
        "            with block():\n"
        "                try:\n"
        "                    os.kill(os.getpid(), signal.SIGTERM)\n"
        "                except SystemExit:\n"
        "                    if is_another:\n"
        "                        raise SystemError('a result with an exception set')\n"
        "            print('went on')\n"
        "        except SystemExit as stop:\n"
        "            print(stop.code)\n"
    )
    assert words_of(program, tmp_path) == [b"143"] * 4


def test_families_in_one_process_are_apart(tmp_path: Path) -> None:
    """The end of one within another, as in the demo, leaves the other's orphans alone."""
    program = (
        "import os, time\nfrom pathlib import Path\n"
        "from gpuconf.support.children.family import ProcessFamily\n"
        "orphan = '(setsid sh -c \"echo \\\\$\\\\$ >NAME; exec sleep 600\" &) ; sleep 600'\n"
        "def alive(name): return Path('/proc', Path(name).read_text().strip(), 'cwd').exists()\n"
        "def start(family, name):\n"
        "    family.start(['sh', '-c', orphan.replace('NAME', name)], os.environ)\n"
        "    while not Path(name).exists() or not Path(name).read_text().strip():\n"
        "        time.sleep(0.02)\n"
        "with ProcessFamily() as outer:\n"
        "    with ProcessFamily() as inner:\n"
        "        start(outer, 'outer')\n"
        "        start(inner, 'inner')\n"
        "    assert alive('outer') and not alive('inner')\n"
        "assert not alive('outer')\n"
        "assert outer.is_gone and inner.is_gone\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=clean_environment(tmp_path), check=True
    )
