"""A run from outside: what passes through, what is left, what an agent reports."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

from gpuconf.commands.rehearse.agent import resizing as r
from gpuconf.commands.rehearse.agent.names import noted
from gpuconf.commands.rehearse.runs import Orders, run_once
from gpuconf.commands.rehearse.verdict import verdict_of
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import batches as b
from tests.commands.rehearse.programs import run_script
from tests.programs.processes import clean_environment, is_alive, write_package
from tests.programs.terminals import OnTerminal

pytestmark = pytest.mark.slow  # waits for programs


def test_exit_codes_and_reports(tmp_path: Path) -> None:
    """Each Python process reports for itself; the code is the program's."""
    done = run_script(
        tmp_path,
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'])\nsys.exit(7)",
    )
    assert done.code == 7
    assert len(done.reports) == 2
    assert {report["ended"] for report in done.reports} == {"exit"}
    assert verdict_of(done).exit_code == 7


def test_an_uncaught_error_is_noted_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """With the program's own hook in place; PYTHONPATH's own folders and arguments stay."""
    write_package(tmp_path, {"there/beside.py": "NAME = 'beside'\n"})
    done = run_script(
        tmp_path,
        "import sys, beside\nsys.excepthook = lambda *_: print(beside.NAME, file=sys.stderr)\n"
        "raise KeyError('of the script')",
        PYTHONPATH=str(tmp_path / "there"),
    )
    assert done.code == 1
    assert done.trainer["uncaught"]["type"] == "KeyError"
    assert done.trainer["uncaught"]["where"].endswith("script.py:3")
    assert done.stderr == "beside\n"


def test_the_users_own_sitecustomize_runs(tmp_path: Path) -> None:
    """Ours hides it, so ours runs it; and none of our modules can be imported by accident.

    One that puts a finder in front of all others, as some tools do, hides no import from us.
    """
    write_package(
        tmp_path,
        {
            "there/tensorflow.py": "__version__ = '0.standin'\n",
            "there/sitecustomize.py": """
                import builtins, sys
                from importlib.machinery import PathFinder
                builtins.MINE = 5
                sys.meta_path.insert(0, PathFinder)
            """,
        },
    )
    done = run_script(
        tmp_path,
        "import importlib.util, sitecustomize\nassert MINE == 5\n"
        "for name in ('steps', 'start', 'memory', 'batches', 'record'):\n"
        "    assert importlib.util.find_spec(name) is None, name\n"
        "try:\n    import tensorflow\nexcept Exception:\n    pass\n",
        PYTHONPATH=str(tmp_path / "there"),
    )
    assert (done.code, done.stderr) == (0, "")
    assert done.trainer["tensorflow"] == "0.standin"


def test_keras_on_another_backend_is_refused(tmp_path: Path) -> None:
    """When it is imported, before anything is computed; a module of that name stands for it.

    Frameworks that are imported before it, as TensorFlow itself imports JAX, are noted alone.
    """
    keras = "class config:\n    backend = staticmethod(lambda: 'torch')\n__version__ = '3.15'\n"
    write_package(tmp_path, {"torch.py": "__version__ = '2.9'\n", "keras.py": keras})
    done = run_script(
        tmp_path, "import torch, keras\nopen('went_on', 'w')", PYTHONPATH=str(tmp_path)
    )
    assert (done.code, done.trainer["ended"]) == (1, "backend")
    assert done.trainer["others"] == ["PyTorch"]
    verdict = verdict_of(done)
    assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)
    assert verdict.because.startswith("Keras uses the torch backend here")
    assert not (tmp_path / "went_on").exists()


def test_without_an_agent_there_is_no_verdict(tmp_path: Path) -> None:
    """A Python that was told to see nothing of us ends well, and that proves nothing."""
    for option in ("-I", "-S", "-E"):
        done = run_script(tmp_path, "print('fine')", option)
        assert (done.code, done.reports) == (0, ()), option
        verdict = verdict_of(done)
        assert (verdict.answer, verdict.exit_code) == ("no verdict", 4), option
        assert "no Python process reported" in verdict.because, option


def test_the_agent_is_light(tmp_path: Path) -> None:
    """It is in every Python process of the program: no NumPy, no subprocess, no rich."""
    done = run_script(
        tmp_path,
        "import sys\nheavy = {'numpy', 'tensorflow', 'rich', 'subprocess', 'yaml', 'ctypes', "
        "'gpuconf.simcard', 'matplotlib'}\nassert not heavy & set(sys.modules), "
        "heavy & set(sys.modules)\nassert 'gpuconf.commands.rehearse.agent.start' in sys.modules",
    )
    assert (done.code, done.stderr) == (0, "")


def test_a_python_without_gpuconf_is_rehearsed_too(tmp_path: Path) -> None:
    """Only our own package comes in by path, not all that is installed next to it."""
    file = tmp_path / "bare.py"
    file.write_text(
        "import gpuconf.commands.rehearse.agent.start, importlib.util, sys\n"
        "assert importlib.util.find_spec('pytest') is None\n",
        encoding="utf-8",
    )
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    environ = clean_environment(tmp_path)
    done = run_once([python, str(file)], Orders(), environ=environ, is_shown=False)
    assert done.stderr == ""
    assert (done.code, len(done.reports)) == (0, 1)


_DAEMONS = """
[ "$GPUCONF_NO_RESERVE" ] || exit 1
echo $GPUCONF_REHEARSAL >{0}/reports
setsid sh -c 'echo $$ >{0}/1; exec sleep 600' &
timeout 600 sh -c 'echo $$ >{0}/2; sleep 600; true' &
# Its parent ends at once, and its environment is empty.
(env -i setsid sh -c 'echo $$ >{0}/3; sleep 600; true' </dev/null >/dev/null 2>&1 &)
sh -c 'echo $$ >{0}/4; exec sleep 600' &
while [ ! -s {0}/1 -o ! -s {0}/2 -o ! -s {0}/3 -o ! -s {0}/4 ]; do sleep 0.05; done
"""


def test_other_groups_and_sessions_end_too(tmp_path: Path) -> None:
    """`timeout` makes a process group, `setsid` a session: none of them continues training.

    The folder of the reports ends with them.
    """
    script = tmp_path / "run.sh"
    script.write_text(_DAEMONS.format(tmp_path), encoding="utf-8")
    environ = clean_environment(tmp_path)
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        done = run_once(["bash", str(script)], Orders(), environ=environ, is_shown=False)
        assert done.code == 0
        pids = [int((tmp_path / name).read_text(encoding="utf-8")) for name in "1234"]
        assert not [pid for pid in pids if is_alive(pid)]
        reports = (tmp_path / "reports").read_text(encoding="utf-8").strip()
        assert reports
        assert not Path(reports).exists()
        assert bystander.poll() is None  # a child of ours that is not the command's
    finally:
        bystander.kill()
        bystander.wait()


def test_a_full_disk_is_not_the_programs_error(tmp_path: Path) -> None:
    """The agent cannot write a word: the program continues, and the run says where."""
    done = run_script(
        tmp_path,
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nprint('fine')\n",
    )
    assert (done.code, done.stderr) == (0, "")
    assert done.unwritten is not None
    assert "could not write" in verdict_of(done).because


def test_a_helper_that_cannot_take_the_profile_runs(tmp_path: Path) -> None:
    """Without PyYAML no own profile can be read: that counts where TensorFlow is, not before."""
    own = tmp_path / "own.yaml"
    own.write_text("extends: shared-desktop\n", encoding="utf-8")
    standins = {"yaml.py": "raise ImportError('no yaml')\n", "tensorflow.py": "__version__ = '0'\n"}
    write_package(tmp_path / "there", standins)
    program = "import os, sys\nif 'tf' in os.environ['HELP']: import tensorflow\nsys.exit(9)\n"

    def code_and_end(helped: str) -> tuple[int | None, str]:
        variables = {"PYTHONPATH": str(tmp_path / "there"), "HELP": helped}
        done = run_script(tmp_path, program, orders=Orders(profile=str(own)), **variables)
        return done.code, done.trainer["ended"]

    assert code_and_end("no") == (9, "exit")
    assert code_and_end("tf") == (1, "dependency")


def test_arguments_of_an_optimizer_are_passed_on_as_they_are() -> None:
    """Only what can be read once becomes a list; a variable can be iterated and stays itself."""

    class Variable:
        def assign(self) -> None: ...

        def __iter__(self) -> None:
            raise TypeError("a scalar")

    weight, counter = Variable(), Variable()
    known: dict[int, object] = {}
    pairs, same = noted((zip([1], [weight], strict=True), counter), known)
    assert pairs == [(1, weight)]
    assert same is counter
    assert list(known.values()) == [weight]
    given = ([(1, weight)], None, 5)
    assert all(a is b for a, b in zip(noted(given, known), given, strict=True))


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    """A usage error that names it."""
    with pytest.raises(UsageError, match="cannot start 'nosuch'"):
        run_once(["nosuch"], Orders(), environ=clean_environment(tmp_path), is_shown=False)


_OUTER = """
import os, sys
from gpuconf.commands.rehearse.runs import Orders, run_once
inner = "import sys; sys.stdout.write('out\\\\x1b[1m %s\\\\r' % sys.stdout.isatty()); " \\
        "sys.stdout.flush(); sys.stderr.write('err %s\\\\n' % sys.stderr.isatty())"
done = run_once([sys.executable, "-c", inner], Orders(), environ=os.environ, title="T")
assert done.stderr.startswith("err"), done.stderr
"""


def test_output_passes_through_a_pipe_untouched(tmp_path: Path) -> None:
    """Byte for byte, each stream to its own, no word of ours."""
    done = subprocess.run(
        [sys.executable, "-c", _OUTER],
        env=clean_environment(tmp_path),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"out\x1b[1m False\r"
    assert done.stderr == b"err False\n"


_HIDDEN = """
run_once([sys.executable, "-c", "import time; print(5); time.sleep(1)"], Orders(),
         environ=os.environ, is_shown=False, title="T")
"""


def test_a_terminal_stays_a_terminal(tmp_path: Path) -> None:
    """The program sees one on both streams; where it is not shown, our line is, and is erased."""
    with OnTerminal([sys.executable, "-c", _OUTER + _HIDDEN], tmp_path, columns=80) as terminal:
        assert terminal.end() == 0
    assert "out\x1b[1m True\r" in terminal.raw
    assert "err True" in terminal.raw
    shown, _, hidden = terminal.raw.partition("err True")
    assert "T: " not in shown
    assert "5" not in hidden
    assert "T: started" in hidden
    assert "T: started" not in hidden.rpartition("\x1b[K")[2]


def test_resized_data() -> None:
    """Batches of another size keep their nesting, None, order and type, in every kind of data."""
    x, y = np.arange(12).reshape(6, 2), np.arange(6)
    batch = ({"a": x, "b": None}, y)
    assert [b.examples(each) for each in (batch, [1, 2], None)] == [6, 2, None]
    small = r.repeated(batch, 4)
    assert small[0]["b"] is None
    assert small[0]["a"].tolist() == x[:4].tolist()
    large = r.repeated(batch, 15)
    assert large[1].tolist() == [*range(6), *range(6), 0, 1, 2]
    told: list[int | None] = []
    wide = r.generator(iter([(x, y), (x + 100, y + 100), (x, y)]), 8, told.append)
    first = next(wide)
    assert told == [6]
    assert len(first[1]) == 8
    assert first[1].tolist()[6:] == [100, 101]
    narrow = r.generator(iter([(x, y)] * 3), 2, told.append)
    assert [len(each[1]) for each in narrow] == [2, 2, 2]
    same = r.generator(iter([(x, y)]), None, told.append)
    assert next(same)[1] is y
    assert b.is_array([x, y])
    assert b.is_array([[1.0], [2.0]])
    assert not b.is_array(iter([x]))


SCRIPT = '''"""Its docstring."""
from __future__ import annotations
import json, multiprocessing, pickle, sys
class Kept:
    pass
def double(number):
    return number * 2, __name__
if __name__ == "__main__":
    kept = pickle.loads(pickle.dumps(Kept()))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        doubled = pool.map(double, [1, 2])
    names = ("__doc__", "__file__", "__name__", "__package__", "__spec__", "__cached__")
    seen = [globals().get(name) for name in names]
    seen += [type(__loader__).__name__, sys.path[0], sys.argv, type(kept) is Kept, doubled]
    print(json.dumps([*seen, sorted(name for name in globals() if name.startswith("__"))]))
'''


def test_a_script_sees_itself_as_ever(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its own names, its arguments, its folder, spawned processes and pickles are as without us."""
    script = tmp_path / "its folder" / "script.py"
    script.parent.mkdir()
    script.write_text(SCRIPT, encoding="utf-8")
    link = tmp_path / "link.py"
    link.symlink_to(script)
    for path in (script, link):
        command = [sys.executable, str(path), "a", "b"]
        done = run_once(command, Orders(), environ=clean_environment(tmp_path))
        assert (done.code, done.trainer["ended"]) == (0, "exit"), done.stderr
        rehearsed = capfd.readouterr().out
        plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert rehearsed == plain
        assert json.loads(rehearsed)[7] == str(script.parent)
