"""``gpuconf.isolated`` without a framework: what travels, what is refused, and how a call ends."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuconf
from gpuconf.isolation.pickling import Pickler, read_value, write_value
from gpuconf.support.children.run import memory_file
from tests.programs.card_clients import wait_until
from tests.programs.processes import (
    Program,
    Start,
    clean_environment,
    interruptible,
    is_alive,
    run,
    run_python,
    write_package,
)

pytestmark = pytest.mark.slow  # each call starts a program

LOCK = threading.Lock()
SCALE = 7


class TwoPartsError(Exception):
    """Its `__init__` has other parameters than `args`."""

    def __init__(self, name: str, *, part: int) -> None:
        super().__init__(f"{name} {part}")
        self.part = part


class GrammarError(SyntaxError):
    """Its message is in a field that `SyntaxError.__init__` sets."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class MadeDifferentlyError(Exception):
    """Can be pickled, and not unpickled."""

    def __new__(cls, *, part: int) -> MadeDifferentlyError:
        return super().__new__(cls, part)

    def __init__(self, *, part: int) -> None:
        super().__init__(part)


# --- what travels -------------------------------------------------------------------------------


def test_closures_globals_and_options() -> None:
    """A lambda and its closure, a global, keywords; the name and docstring are the function's."""
    offset = 1
    assert gpuconf.isolated(lambda x, *, y: x * SCALE + y + offset)(5, y=2) == 38

    @gpuconf.isolated(timeout_s=60)
    def named() -> int:
        """About it."""
        return os.getpid()

    assert (named.__name__, named.__doc__) == ("named", "About it.")
    with ThreadPoolExecutor(2) as pool:  # two calls at the same time
        pids = [pool.submit(named) for _ in range(2)]
    assert len({os.getpid(), *(each.result() for each in pids)}) == 3


def test_arrays_are_outside_the_pickle() -> None:
    """Equal in both directions, writable, and in the file only once."""
    array = np.arange(1 << 20, dtype="u1").reshape(1024, 1024)
    with memory_file("test") as file:
        write_value(file, "an earlier value that is longer " * 100_000, Pickler)
        write_value(file, {"a": array, "same": array, "turned": array.T}, Pickler)
        assert os.fstat(file).st_size < 2.01 * array.nbytes  # a view is a second one
        value = read_value(file)
    assert value["a"] is value["same"]
    assert isinstance(memoryview(value["a"].base.base).obj, mmap.mmap)

    @gpuconf.isolated
    def changed(given: Any) -> Any:
        given["a"][0, 0] = 9
        return given["a"], given["turned"]

    result, turned = changed(value)
    assert (result[0, 0], value["a"][0, 0]) == (9, 0)
    np.testing.assert_array_equal(turned, array.T)
    result += 1  # a private copy, not a read-only map


def test_classes_with_slots_and_inside_others(tmp_path: Path) -> None:
    """Both ways, and pickled in the function; a class with slots there has no other attributes."""
    program = (
        "import gpuconf, pickle\n"
        "class Outer:\n"
        "    class Point:\n"
        "        __slots__ = ('x',)\n"
        "        def __init__(self, x): self.x = x\n"
        "@gpuconf.isolated\n"
        "def twice(point):\n"
        "    again = pickle.loads(pickle.dumps(point))\n"
        "    return type(again)(again.x * 2), hasattr(again, '__dict__')\n"
        "made, has_dict = twice(Outer.Point(4))\n"
        "print(isinstance(made, Outer.Point), made.x, has_dict)\n"
        "print(isinstance(gpuconf.isolated(lambda: (Outer(), Outer.Point(1)))()[0], Outer))\n"
    )
    assert run_python(program, tmp_path) == "True 8 False\nTrue\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs Python 3.11")
def test_modules_of_the_working_directory(tmp_path: Path) -> None:
    """They do not replace what the process itself imports."""
    write_package(tmp_path, {"data/pickle.py": "raise SystemExit('the wrong module')\n"})
    program = "import gpuconf, os\nos.chdir('data')\nprint(gpuconf.isolated(lambda: 3)())\n"
    assert run_python(program, tmp_path) == "3\n"


TRIALS = """
import gpuconf

COUNTS = []

class Point: pass

def count(number): COUNTS.append(number)

def twice(function):
    import functools
    @functools.wraps(function)
    def called(*args):
        return function(*args), function(*args)
    return called

@gpuconf.isolated
def trial(point):
    COUNTS.append(1)
    count(2)
    return COUNTS, isinstance(point, Point)

@twice
@gpuconf.isolated
@twice
def doubled(): return count(3), list(COUNTS)

class Group:
    @gpuconf.isolated
    def size(self): return isinstance(self, Group), len(COUNTS)

COUNTS.append(0)
"""


def test_a_decorated_function_of_a_module_runs_in_its_module(tmp_path: Path) -> None:
    """Also a method and one with more decorators: the module's own variables and classes."""
    (tmp_path / "trials.py").write_text(TRIALS, encoding="utf-8")
    program = (
        "import trials\n"
        "trials.COUNTS.append('of the caller')\n"
        "print(trials.trial(trials.Point()))\n"
        "print(trials.Group().size())\n"
        "print(trials.doubled())\n"
    )
    trial, group, doubled = run_python(program, tmp_path).splitlines()
    assert trial == "([0, 1, 2], True)"
    assert group == "(True, 1)"
    once = ((None, [0, 3]), (None, [0, 3, 3]))
    assert doubled == str((once, once))


def test_a_decorated_function_of_a_module_without_a_name(tmp_path: Path) -> None:
    """A file that only the caller has loaded: the function travels with what it reads."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "apart.py").write_text(
        "import gpuconf\nX = 1\n@gpuconf.isolated\ndef add(y): return X + y\n", encoding="utf-8"
    )
    program = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('apart', 'folder/apart.py')\n"
        "sys.modules['apart'] = module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.add(2))\n"
    )
    assert run_python(program, tmp_path) == "3\n"


PICKLES = """
import gpuconf, multiprocessing, pickle

signal = main = write_result = "names of the program that runs the call"

class Point:
    def __init__(self, x): self.x = x

def double(point): return Point(2 * point.x)

@gpuconf.isolated
def doubled(way, point):
    assert type(pickle.loads(pickle.dumps(point))) is type(point)
    with multiprocessing.get_context(way).Pool(1) as pool:
        return signal[:5], pool.map(double, [point])[0]
"""


@pytest.mark.parametrize(
    ("first_line", "command"), [("", "script.py"), ("from . import __path__", "-m package.script")]
)
def test_pickling_in_the_function_what_the_script_defines(
    tmp_path: Path, first_line: str, command: str
) -> None:
    """By pickle, and in workers that are forked; spawned ones import the script, as without us."""
    calls = (
        "    for way in ('fork', 'spawn'):\n"
        "        made = doubled(way, Point(4))[1]\n"
        "        print(isinstance(made, Point), made.x)\n"
    )
    script = f"{first_line}\n{PICKLES}\nif __name__ == '__main__':\n{calls}"
    file = "package/script.py" if first_line else "script.py"
    write_package(tmp_path, {"package/__init__.py": "", file: script})
    done = run([sys.executable, *command.split()], tmp_path)
    assert done.stdout == "True 8\nTrue 8\n", done.stderr


def test_a_call_in_a_spawned_worker(tmp_path: Path) -> None:
    """There the script is not `__main__`; its definitions go with the call anyway."""
    calls = (
        "def call(x): return doubled('fork', Point(x))[1]\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        made = pool.map(call, [4])[0]\n"
        "    print(isinstance(made, Point), made.x)\n"
    )
    assert run_python(PICKLES + calls, tmp_path) == "True 8\n"


def test_a_script_that_its_workers_would_run_again(tmp_path: Path) -> None:
    """Without a main guard each would start the call, whose workers start it, without an end."""
    program = (
        "import gpuconf, multiprocessing\n"
        "print('runs', flush=True)\n"
        "@gpuconf.isolated\n"
        "def call():\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    worker.start()\n"
        "    worker.join()\n"
        "    return worker.exitcode\n"
        "print(call())\n"
    )
    (tmp_path / "script.py").write_text(program, encoding="utf-8")
    done = run([sys.executable, "script.py"], tmp_path)
    assert done.stdout == "runs\nruns\n1\n"
    assert 'hint: put the calls under `if __name__ == "__main__":`' in done.stderr


def test_its_own_plan_in_the_environment_before_gpuconf(tmp_path: Path) -> None:
    """The caller's profile, or another; variables that a plan has set here are not set there."""
    program = (
        "import os, gpuconf\n"
        "gpuconf.configure('cpu-only')\n"
        "assert os.environ['CUDA_VISIBLE_DEVICES'] == '-1'\n"
        "def seen():\n"
        "    return str(gpuconf.activation().profile), os.environ.get('CUDA_VISIBLE_DEVICES')\n"
        "print(gpuconf.isolated(seen)())\n"
        "print(gpuconf.isolated(profile='half-card', memory={'memory_limit': '4GiB'})(seen)())\n"
        "print(os.environ['CUDA_VISIBLE_DEVICES'])\n"
    )
    first, second, after = run_python(program, tmp_path).splitlines()
    assert first == "('cpu-only', '-1')"
    assert second == "('half-card', None)"
    assert after == "-1"


def test_the_project_of_the_script(tmp_path: Path) -> None:
    """Its own profile applies, from any working directory."""
    write_package(tmp_path, {"gpuconf.yaml": "gpus: none\n"})
    program = (
        "import os, gpuconf\n"
        "os.chdir('/')\n"
        "print(gpuconf.isolated(lambda: gpuconf.activation().profile)())\n"
    )
    assert run_python(program, tmp_path, environ={"HOME": "/no/home"}) == "project\n"


def test_output_goes_to_this_processs_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """Output of Python, C and a shell, in parts of a line, and that of exit functions."""

    @gpuconf.isolated
    def talks() -> None:
        import atexit
        import subprocess

        print("from Python ä", flush=True)
        print("to stderr", file=sys.stderr)
        os.write(1, b"from C\n")
        subprocess.run("echo from a shell", shell=True, check=True)
        print("x" * 200_000)
        atexit.register(print, "at exit")

    talks()
    out, err = capsys.readouterr()
    *lines, long, last = out.splitlines()
    assert lines == ["from Python ä", "from C", "from a shell"]
    assert (len(long), last, err) == (200_000, "at exit", "to stderr\n")


# --- errors -------------------------------------------------------------------------------------


def test_an_exception_keeps_its_type_and_its_lines() -> None:
    """Its traceback shows the function's source, and none of gpuconf's frames in the process."""

    def fails() -> None:
        def inner() -> None:
            raise ValueError("inside")  # the line that a traceback must show

        inner()

    with pytest.raises(ValueError, match="inside") as caught:
        gpuconf.isolated(fails)()
    shown = "".join(traceback.format_exception(caught.value))
    assert 'raise ValueError("inside")  # the line that a traceback must show' in shown
    assert shown.count(f'File "{__file__}"') == 3  # fails, inner, and this test
    assert "child.py" not in shown


def test_an_exception_with_its_own_init() -> None:
    """Its type, message and attributes, whether it is raised or returned."""

    def raises() -> None:
        raise TwoPartsError("a", part=1)

    with pytest.raises(TwoPartsError, match=r"^a 1$") as caught:
        gpuconf.isolated(raises)()
    assert caught.value.part == 1
    returned, grammar = gpuconf.isolated(lambda: (TwoPartsError("b", part=2), GrammarError("c")))()
    assert (type(returned), str(returned), returned.part) == (TwoPartsError, "b 2", 2)
    assert (type(grammar), grammar.msg) == (GrammarError, "c")


def test_an_exception_that_cannot_be_rebuilt() -> None:
    """Its text, and its lines, in our own error."""

    def raises() -> None:
        raise MadeDifferentlyError(part=1)

    def with_a_lock() -> None:
        error = TwoPartsError("a", part=1)
        error.part = threading.Lock()  # type: ignore[assignment]
        raise error

    with pytest.raises(gpuconf.IsolatedProcessError, match=r"MadeDifferentlyError: 1") as caught:
        gpuconf.isolated(raises)()
    assert "raise MadeDifferentlyError(part=1)" in str(caught.value.__cause__)
    with pytest.raises(gpuconf.IsolatedProcessError, match=r"TwoPartsError: a 1"):
        gpuconf.isolated(with_a_lock)()
    with pytest.raises(gpuconf.IsolatedProcessError, match=r"cannot be unpickled here: TypeError"):
        gpuconf.isolated(lambda: MadeDifferentlyError(part=1))()


@pytest.mark.parametrize(
    ("code", "how"), [("os._exit(3)", "exit code 3"), ("os.kill(os.getpid(), 9)", "SIGKILL")]
)
def test_no_result(code: str, how: str) -> None:
    """How the process ended, and what it wrote last."""

    @gpuconf.isolated
    def ends() -> None:
        print("the last words", file=sys.stderr)
        exec(code, {"os": os})

    with pytest.raises(gpuconf.IsolatedProcessError, match=how) as caught:
        ends()
    assert "the last words" in caught.value.message


@pytest.mark.parametrize("has_files", [False, True])
def test_a_function_that_closes_all_files(tmp_path: Path, has_files: bool) -> None:
    """There is no way for its result; its own files with our descriptors are not written to."""
    paths = [tmp_path / str(number) for number in range(20)]

    @gpuconf.isolated
    def closes() -> None:
        os.closerange(3, 100)
        for path in paths if has_files else ():
            os.write(os.open(path, os.O_RDWR | os.O_CREAT), b"its own")

    with pytest.raises(
        gpuconf.IsolatedProcessError, match="has closed one of gpuconf's file descriptors"
    ):
        closes()
    assert [path.read_bytes() for path in paths if path.exists()] == [b"its own"] * 20 * has_files


def test_what_cannot_be_sent_is_named_before_a_process_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An argument, a keyword, a global; the interpreter of the process would not even start."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    refused: list[tuple[Callable[..., object], tuple[object, ...], str]] = [
        (print, (1, LOCK), "argument 2 of print"),
        (lambda x: x, ((each for each in "ab"),), "argument 1 of .*<lambda>"),
        (lambda: LOCK, (), "LOCK, which .*<lambda> uses,"),
    ]
    for function, args, named in refused:
        with pytest.raises(gpuconf.GpuconfError, match=f"{named} cannot be sent .*: cannot pickle"):
            gpuconf.isolated(function)(*args)
    with (
        open(__file__, encoding="utf-8") as file,
        pytest.raises(gpuconf.GpuconfError, match=r"argument sep of print .* open file"),
    ):
        gpuconf.isolated(print)(sep=file)  # type: ignore[arg-type]


def test_results_that_cannot_be_sent() -> None:
    """Generators of both kinds, and what is no function; a returned generator is named too."""

    def generates() -> Any:
        yield 1

    async def generates_later() -> Any:
        yield 1

    wrong: Any
    for wrong in (generates, generates_later, 3):
        with pytest.raises(gpuconf.GpuconfError, match="isolated: ") as caught:
            gpuconf.isolated(wrong)
        assert (caught.value.hint is None) == (wrong == 3), "only a generator can become a list"
    with pytest.raises(gpuconf.GpuconfError, match="the result, of type generator, cannot be sent"):
        gpuconf.isolated(lambda: (each for each in "ab"))()


@pytest.mark.parametrize("timeout_s", [0, -1, "5", float("nan"), float("inf"), True, (5,)])
def test_a_bad_time_limit_is_one_error(timeout_s: Any) -> None:
    """At the decorator, with what was expected."""
    with pytest.raises(gpuconf.GpuconfError) as caught:
        gpuconf.isolated(timeout_s=timeout_s)
    expected = "timeout_s: expected a number of seconds above 0, such as 600; got "
    assert str(caught.value) == f"gpuconf.isolated: {expected}{timeout_s!r}"


@pytest.mark.parametrize("command", [(), ("-m", "gpuconf", "run", "--profile=cpu-only", "--")])
@pytest.mark.parametrize("environ", [{}, {"GPUCONF_DISABLE": "1"}], ids=["on", "off"])
def test_a_misspelled_option_is_one_error(
    tmp_path: Path, command: Sequence[str], environ: dict[str, str]
) -> None:
    """At the decorator, also where no option has an effect."""
    (tmp_path / "script.py").write_text(
        "import gpuconf\n"
        "for options in ({'timeout': 5}, {'memory': {'memory_limt': '4GiB'}}):\n"
        "    try: gpuconf.isolated(**options)\n"
        "    except gpuconf.ProfileError as error: print(error)\n"
        "gpuconf.isolated(memory={'memory_limit': '4GiB'})\n",
        encoding="utf-8",
    )
    python = [sys.executable, *command, *([sys.executable] if command else [])]
    done = run([*python, "script.py"], tmp_path, environ=environ)
    assert 'override timeout: unknown key "timeout"' in done.stdout
    assert "memory_limit" in done.stdout.split("memory_limt", 1)[1]
    assert done.returncode == 0, done.stderr


def test_without_cloudpickle(tmp_path: Path) -> None:
    """The decorator works, and a call names the extra."""
    program = (
        "import sys, gpuconf\n"
        "sys.modules['cloudpickle'] = None\n"
        "f = gpuconf.isolated(len)\n"
        "try: f('ab')\n"
        "except gpuconf.MissingDependencyError as error: print(error.hint)\n"
    )
    assert run_python(program, tmp_path) == "pip install 'gpuconf[isolated]'\n"


# --- its end ------------------------------------------------------------------------------------


def test_out_of_time() -> None:
    """A function that ignores all signals is stopped."""

    def deaf() -> None:
        import signal
        import time

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(600)

    with pytest.raises(gpuconf.IsolatedProcessError, match="did not end within 1 s"):
        gpuconf.isolated(deaf, timeout_s=1)()


def test_its_own_children_end_and_others_do_not() -> None:
    """Also one in a new session; a child that another thread starts meanwhile keeps running."""
    import subprocess

    started: list[subprocess.Popen[bytes]] = []

    def start_another() -> None:
        started.append(subprocess.Popen(["sleep", "600"], start_new_session=True))

    @gpuconf.isolated
    def starts() -> list[int]:
        import subprocess
        import time

        words = (["sleep", "600"], ["setsid", "sleep", "600"])
        pids = [subprocess.Popen(each).pid for each in words]
        time.sleep(0.5)
        return pids

    timer = threading.Timer(0.1, start_another)
    timer.start()
    pids = starts()
    timer.join()
    assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert started[0].poll() is None
    started[0].kill()
    started[0].wait()


WAITING = """
import os, signal, sys, time
import gpuconf

@gpuconf.isolated
def waits(is_deaf):
    if is_deaf:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        print(os.getpid(), flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        return "half a result"

try:
    print(waits(sys.argv[1] == "deaf"), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def begin(start: Start, tmp_path: Path) -> Callable[[str], tuple[Program, int]]:
    """Start the program above; return it and the pid of its isolated process."""

    def begin_one(way: str) -> tuple[Program, int]:
        command = interruptible([sys.executable, "-c", WAITING, way])
        program = start(command, clean_environment(tmp_path))
        return program, int(program.read_line())

    return begin_one


def test_ctrl_c_is_for_the_function(begin: Callable[[str], tuple[Program, int]]) -> None:
    """It may return what it has."""
    program, _ = begin("hearing")
    program.send_signal(signal.SIGINT)
    assert program.read_line() == "half a result"


def test_a_second_ctrl_c_ends_it(begin: Callable[[str], tuple[Program, int]]) -> None:
    """Whatever the function does with the first."""
    program, pid = begin("deaf")
    program.send_signal(signal.SIGINT)
    with pytest.raises(AssertionError, match="did not happen"):
        wait_until(lambda: not is_alive(pid), timeout_s=1)
    program.send_signal(signal.SIGINT)
    assert program.read_line() == "interrupted"
    assert not is_alive(pid)


def test_a_killed_caller_leaves_nothing(begin: Callable[[str], tuple[Program, int]]) -> None:
    """The process ends with a caller that could not end it."""
    program, pid = begin("deaf")
    program.kill()
    program.wait()
    wait_until(lambda: not is_alive(pid))
