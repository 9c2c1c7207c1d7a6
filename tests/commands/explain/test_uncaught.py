"""The diagnosis under the traceback that ends a script, by GPUCONF_EXPLAIN."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from textwrap import dedent

import pytest

from tests.programs.processes import run

pytestmark = pytest.mark.slow  # waits for programs

ASKED = {"GPUCONF_EXPLAIN": "1", "GPUCONF_PROFILE": "cpu-only"}
DIAGNOSIS = "\n\ngpuconf: no room on the GPU for a tensor (oom-device-tensor): the run failed\n"
# TensorFlow's words, without TensorFlow.
FAILURE = """
class ResourceExhaustedError(Exception):
    pass

def train():
    raise ResourceExhaustedError(
        "{{function_node __wrapped__Fill_device_/job:localhost/replica:0/task:0/device:GPU:0}} "
        "OOM when allocating tensor with shape[8192,8192] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Fill]")
"""


def script(text: str, folder: Path, **environ: str) -> CompletedProcess[str]:
    """Run a user's script whose first line is ``import gpuconf.auto``."""
    file = folder / "train.py"
    file.write_text(f"import gpuconf.auto\n{FAILURE}\n{dedent(text)}", encoding="utf-8")
    command = [sys.executable, "-W", "error", str(file)]
    return run(command, folder, environ={**ASKED, **environ}, timeout_s=300)


@pytest.mark.parametrize("value", ["", "0", "off", "False", " no "])
def test_it_is_off_unless_asked_for(tmp_path: Path, value: str) -> None:
    """The hook is Python's own, and nothing of ours is said."""
    done = script(
        "import sys; print(sys.excepthook is sys.__excepthook__); train()",
        tmp_path,
        GPUCONF_EXPLAIN=value,
    )
    assert (done.returncode, done.stdout) == (1, "True\n")
    assert "gpuconf:" not in done.stderr


def test_gpuconf_disable_is_heeded(tmp_path: Path) -> None:
    """What switches everything off switches this off; 0 is not set."""
    off, on = (script("train()", tmp_path, GPUCONF_DISABLE=value) for value in ("1", "0"))
    assert DIAGNOSIS not in off.stderr
    assert DIAGNOSIS in on.stderr
    wrong = script("print(1)", tmp_path, GPUCONF_DISABLE="1", GPUCONF_EXPLAIN="maybe")
    assert (wrong.returncode, wrong.stderr) == (0, "")


@pytest.mark.parametrize("name", ["GPUCONF_EXPLAIN", "GPUCONF_DISABLE"])
def test_a_word_that_is_neither_yes_nor_no(tmp_path: Path, name: str) -> None:
    """One error and its hint, no traceback."""
    done = script("train()", tmp_path, **{name: "maybe"})
    error, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert error.startswith(f"gpuconf: error: invalid value {name}='maybe': 1, true, yes, on")
    assert hint == f"  hint: export {name}=1"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise ValueError('shapes (2, 3) and (4,) do not go together')", 1),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('out of memory')", 1),
        ("raise NameError('tensorflow')", 1),
        ("print('fine')", 0),
    ],
)
def test_what_is_no_matter_of_a_gpu_is_left_alone(tmp_path: Path, text: str, code: int) -> None:
    """Not a word, and the exit code that it has without us."""
    done = script(text, tmp_path)
    assert done.returncode == code
    assert "gpuconf" not in done.stderr.replace("import gpuconf.auto", "")


def test_an_interrupt_is_left_alone(tmp_path: Path) -> None:
    """Also one that came while a refusal was being handled."""
    done = script(
        """
        try:
            train()
        except ResourceExhaustedError:
            raise KeyboardInterrupt
        """,
        tmp_path,
    )
    assert done.returncode == -2
    assert "ResourceExhaustedError" in done.stderr
    assert "gpuconf: " not in done.stderr


def test_our_own_errors_say_themselves_what_they_mean(tmp_path: Path) -> None:
    """A refusal of gpuconf has its hint already, whatever words are in it."""
    done = script(
        """
        from gpuconf.errors import ShortageError
        raise ShortageError("CUDA_ERROR_OUT_OF_MEMORY: out of memory", hint="wait")
        """,
        tmp_path,
    )
    assert done.stderr.rstrip().endswith("hint: wait")


def test_what_it_came_of_is_read_too(tmp_path: Path) -> None:
    """An exception that wraps TensorFlow's is explained by the one within."""
    done = script(
        """
        try:
            train()
        except ResourceExhaustedError as error:
            raise RuntimeError("fold 3 failed") from error
        """,
        tmp_path,
    )
    assert DIAGNOSIS in done.stderr
    assert done.stderr.index("fold 3 failed") < done.stderr.index(DIAGNOSIS)


HOOK_BEFORE = """
import sys
before = sys.excepthook
def told(kind, error, trace):
    print("theirs", kind.__name__, trace is error.__traceback__, flush=True)
    before(kind, error, trace)
sys.excepthook = told
import gpuconf.commands.explain.uncaught as hooks
"""


def test_the_hook_that_was_there_is_called(tmp_path: Path) -> None:
    """First, with what Python gives; however often we are asked, ours is there once."""
    done = script(
        f"{HOOK_BEFORE}\nprint([hooks.install_if_asked() for _ in range(3)])\ntrain()",
        tmp_path,
        GPUCONF_EXPLAIN="",
    )
    assert done.stdout == "[False, False, False]\ntheirs ResourceExhaustedError True\n"
    asked = HOOK_BEFORE + (
        "print([hooks.install_if_asked({'GPUCONF_EXPLAIN': 'yes'}) for _ in range(3)])\n"
        "assert sys.excepthook is not told\ntrain()"
    )
    done = script(asked, tmp_path, GPUCONF_EXPLAIN="")
    assert done.stdout == "[True, True, True]\ntheirs ResourceExhaustedError True\n"
    assert done.stderr.count(DIAGNOSIS) == 1
    assert done.stderr.count("Traceback") == 1


def test_a_hook_that_breaks_costs_no_diagnosis(tmp_path: Path) -> None:
    """Python tells of both errors itself; the diagnosis stands next to them."""
    done = script(
        """
        import sys, gpuconf.commands.explain.uncaught as hooks
        def broken(kind, error, trace):
            raise RuntimeError("the logger is gone")
        sys.excepthook = broken
        hooks.install_if_asked()
        train()
        """,
        tmp_path,
    )
    assert done.returncode == 1
    assert "gpuconf: no room on the GPU" in done.stderr
    assert "the logger is gone" in done.stderr


@pytest.mark.parametrize("trouble", ["RuntimeError('bug')", "KeyboardInterrupt()"])
def test_a_diagnosis_that_breaks_is_not_told(tmp_path: Path, trouble: str) -> None:
    """The traceback stands alone, as without us; GPUCONF_LOG=debug says why."""
    text = f"""
    import gpuconf.commands.explain
    def broken(error):
        raise {trouble}
    gpuconf.commands.explain.explain = broken
    train()
    """
    done = script(text, tmp_path)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("[Op:Fill]")
    assert "could not be explained" in script(text, tmp_path, GPUCONF_LOG="debug").stderr


@pytest.mark.parametrize(
    "change", ["sys.stderr = None", "sys.stderr.close()", "sys.stdout.close()"]
)
def test_streams_that_are_gone(tmp_path: Path, change: str) -> None:
    """A diagnosis never turns up on stdout, and nothing breaks."""
    done = script(f"import sys\n{change}\ntrain()", tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert (DIAGNOSIS in done.stderr) == (change == "sys.stdout.close()")


REAL = """
import gpuconf.auto
import tensorflow as tf

held = tf.ones([4096, 4096])
print("the first fits", flush=True)
tf.zeros([64, 4096, 4096])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("libraries", "tensorflow_python")
def test_tensorflows_own_exception(tmp_path: Path, tensorflow_python: str) -> None:
    """TensorFlow on the simulated GPU: its traceback, then what it means, and exit 1."""
    (tmp_path / "train.py").write_text(REAL, encoding="utf-8")
    card = ["-m", "gpuconf.simcard", "run", "--total", "3GiB", "--"]
    built = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    done = run(
        [sys.executable, *card, tensorflow_python, "train.py"],
        tmp_path,
        environ={"GPUCONF_EXPLAIN": "1", "XDG_CACHE_HOME": built},
        timeout_s=300,
    )
    assert (done.returncode, done.stdout) == (1, "the first fits\n"), done.stderr[-3000:]
    trace, _, told = done.stderr.partition(DIAGNOSIS)
    error = trace.rpartition("Traceback (most recent call last):")[2]
    assert "ResourceExhaustedError" in error
    assert "[64, 4096, 4096] float32 = 4096 MiB" in told
    assert "train.py:7" in told
    assert "what to change" in told
