"""A run from outside: what passes through, what is left, what an agent reports."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest
from processes import clean_environment, run_python

from gpuconf.errors import UsageError
from gpuconf.rehearsal.runs import Orders, RunResult, run_once
from gpuconf.rehearsal.verdict import verdict_of


def _run(folder: Path, program: str, *options: str, **environ: str) -> RunResult:
    """Run a program that imports no TensorFlow, as a rehearsal would."""
    file = folder / "script.py"
    file.write_text(program, encoding="utf-8")
    return run_once(
        [sys.executable, *options, str(file)],
        Orders(),
        environ=clean_environment(folder, environ),
        is_shown=False,
    )


def test_exit_codes_and_reports(tmp_path: Path) -> None:
    """Each Python process reports for itself; the code is the program's."""
    done = _run(
        tmp_path,
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'])\nsys.exit(7)",
    )
    assert done.code == 7
    assert len(done.reports) == 2
    assert {report["ended"] for report in done.reports} == {"exit"}
    assert verdict_of(done).exit_code == 7


def test_an_uncaught_error_is_noted_and_nothing_else_is_touched(tmp_path: Path) -> None:
    """With the program's own hook in place; PYTHONPATH's own folders and arguments stay."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "beside.py").write_text("NAME = 'beside'\n")
    done = _run(
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
    """Ours hides it, so ours runs it; and none of our modules can be imported by accident."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "sitecustomize.py").write_text("import builtins; builtins.MINE = 5\n")
    done = _run(
        tmp_path,
        "import importlib.util, sitecustomize\nassert MINE == 5\n"
        "for name in ('steps', 'start', 'memory', 'batches', 'record'):\n"
        "    assert importlib.util.find_spec(name) is None, name\n",
        PYTHONPATH=str(tmp_path / "there"),
    )
    assert (done.code, done.stderr) == (0, "")


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_without_an_agent_there_is_no_verdict(tmp_path: Path, option: str) -> None:
    """A Python that was told to see nothing of us ends well, and that proves nothing."""
    done = _run(tmp_path, "print('fine')", option)
    assert (done.code, done.reports) == (0, ())
    verdict = verdict_of(done)
    assert (verdict.answer, verdict.exit_code) == ("no verdict", 4)
    assert "no Python process reported" in verdict.because


def test_the_agent_is_light(tmp_path: Path) -> None:
    """It is in every Python process of the program: no NumPy, no subprocess, no rich."""
    done = _run(
        tmp_path,
        "import sys\nheavy = {'numpy', 'tensorflow', 'rich', 'subprocess', 'yaml', 'ctypes', "
        "'gpuconf.simcard', 'matplotlib'}\nassert not heavy & set(sys.modules), "
        "heavy & set(sys.modules)\nassert 'gpuconf.rehearsal.agent.start' in sys.modules",
    )
    assert (done.code, done.stderr) == (0, "")


def test_a_python_without_gpuconf_is_rehearsed_too(tmp_path: Path) -> None:
    """Only our own package comes in by path, not all that is installed beside it."""
    file = tmp_path / "bare.py"
    file.write_text(
        "import gpuconf.rehearsal.agent.start, importlib.util, sys\n"
        "assert importlib.util.find_spec('pytest') is None\n",
        encoding="utf-8",
    )
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    environ = clean_environment(tmp_path)
    done = run_once([python, str(file)], Orders(), environ=environ, is_shown=False)
    assert done.stderr == ""
    assert (done.code, len(done.reports)) == (0, 1)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """What the command started ends with it, and so does the folder of the reports."""
    done = _run(
        tmp_path,
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('child', 'w').write(f'{child.pid} ' + os.environ['GPUCONF_REHEARSAL'])\n",
        # The program's folder is its home; it is started in ours.
        PWD=str(tmp_path),
    )
    left = Path("child")
    try:
        pid, folder = left.read_text(encoding="utf-8").split()
    finally:
        left.unlink()
    assert done.code == 0
    assert not Path(folder).exists()
    deadline = time.monotonic() + 10
    while _is_alive(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    """A usage error that names it."""
    with pytest.raises(UsageError, match="cannot start 'nosuch'"):
        run_once(["nosuch"], Orders(), environ=clean_environment(tmp_path), is_shown=False)


_OUTER = """
import os, sys
from gpuconf.rehearsal.runs import Orders, run_once
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


def test_a_terminal_stays_a_terminal(tmp_path: Path) -> None:
    """The program sees one on both streams; our line is drawn and erased, never within its own."""
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", _OUTER],
        env=clean_environment(tmp_path),
        stdout=slave,
        stderr=slave,
        close_fds=True,
    )
    os.close(slave)
    seen = b""
    while select.select([master], [], [], 20)[0]:
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    assert child.wait() == 0
    assert b"out\x1b[1m True\r" in seen
    assert b"err True" in seen
    assert b"T: started" not in seen.rpartition(b"\x1b[K")[2]


def test_orders_are_plain_data() -> None:
    """They go through a file to another Python."""
    orders = Orders(steps=5, batch=8, profile="p").as_dict()
    assert json.loads(json.dumps(orders)) == orders
    assert orders["package"] == str(Path(run_once.__code__.co_filename).parents[1])


def test_resized_data(tmp_path: Path) -> None:
    """Batches of another size keep their nesting, None, order and type, in every kind of data."""
    run_python(
        """
        import numpy as np
        from gpuconf.rehearsal.agent import resizing as r
        x, y = np.arange(12).reshape(6, 2), np.arange(6)
        batch = ({"a": x, "b": None}, y)
        assert r.examples(batch) == 6 and r.examples([1, 2]) == 2 and r.examples(None) is None
        small = r.repeated(batch, 4)
        assert small[0]["b"] is None and small[0]["a"].tolist() == x[:4].tolist()
        large = r.repeated(batch, 15)
        assert large[1].tolist() == [*range(6), *range(6), 0, 1, 2]
        told = []
        wide = r.generator(iter([(x, y), (x + 100, y + 100), (x, y)]), 8, told.append)
        first = next(wide)
        assert told == [6] and len(first[1]) == 8 and first[1].tolist()[6:] == [100, 101]
        narrow = r.generator(iter([(x, y)] * 3), 2, told.append)
        assert [len(each[1]) for each in narrow] == [2, 2, 2]
        same = r.generator(iter([(x, y)]), None, told.append)
        assert next(same)[1] is y
        assert r.is_array([x, y]) and r.is_array([[1.0], [2.0]]) and not r.is_array(iter([x]))
        """,
        tmp_path,
    )
