"""The borders of a plan, with real TensorFlow on a simulated GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machine.cards import standin
from tests.programs.on_card import RunOnCard
from tests.programs.processes import clean_environment

pytestmark = pytest.mark.slow

LIMITS = """
import os, sys
import gpuconf
from gpuconf.simcard.card import FILE_VARIABLE, Card
def limits():
    return [s.effective for s in gpuconf.activation().settings if s.name.startswith("limit of")]
card = Card(os.environ[FILE_VARIABLE])
"""


def test_gpuconf_after_a_tensorflow_that_imported_keras(run_on_card: RunOnCard) -> None:
    """Who imported Keras cannot be seen any more; the program uses none, so it keeps its GPU."""
    outcome = run_on_card(
        f"""
import tensorflow as tf
import gpuconf.auto
{LIMITS}
report(device=tf.constant([1.0]).device[-5:], limits=limits())
""",
        KERAS_BACKEND="jax",
    )
    assert outcome.values == {"device": "GPU:0", "limits": ["7884 MiB", "7884 MiB"]}, outcome.log


def test_profiles_that_change_after_the_import(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """To one with sessions, while TensorFlow is eager: capped."""
    graph = write_profile("extends: keras-v1-session\nmemory: {memory_limit: 2GiB}\n")
    outcome = run_on_card(
        f"""
import gpuconf.auto
import tensorflow as tf
{LIMITS}
os.environ["GPUCONF_PROFILE"] = {graph!r}
tf.constant([1.0])
report(limits=limits())
"""
    )
    assert outcome.values["limits"] == ["2048 MiB", "2048 MiB"], outcome.log


def test_a_fork_of_a_program_without_gpus(run_on_card: RunOnCard) -> None:
    """Nothing is wrong with it, so nothing is said."""
    outcome = run_on_card(
        f"""
import gpuconf.auto
import tensorflow as tf
tf.constant([1.0])
{LIMITS}
from tensorflow.python.eager import context
pid = os.fork()
if pid == 0:
    context.context().ensure_initialized()
    os._exit(5)
report(child=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
        "cpu-only",
    )
    assert (outcome.code, outcome.values) == (0, {"child": 5}), outcome.log
    assert "was forked after" not in outcome.log


def test_a_finder_in_front_of_ours(run_on_card: RunOnCard) -> None:
    """It asks PathFinder itself, put first after our line: the real limit is the plan's."""
    outcome = run_on_card(
        f"""
from importlib.machinery import PathFinder
{LIMITS}
gpuconf.configure("shared-desktop", memory={{"memory_limit": "2GiB"}})
class Front:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras"):
            return PathFinder.find_spec(name, path, target)
sys.meta_path.insert(0, Front())
import tensorflow as tf
tf.constant([1.0])
report(limits=limits())
""",
        fresh="PathFinder finds the package that is to be executed",
    )
    assert outcome.values["limits"] == ["2048 MiB", "2048 MiB"], outcome.log


def test_while_another_thread_imports_tensorflow(run_on_card: RunOnCard) -> None:
    """Neither import breaks, and the devices have the plan's limit."""
    outcome = run_on_card(
        f"""
import sys, threading, time
errors = []
def work():
    try:
        import tensorflow
    except BaseException as error:
        errors.append(repr(error))
thread = threading.Thread(target=work)
thread.start()
while "tensorflow.python.eager" not in sys.modules:
    time.sleep(0.001)
import gpuconf.auto
thread.join()
{LIMITS}
import tensorflow as tf
tf.constant([1.0])
report(errors=errors, limits=limits())
""",
        fresh="TensorFlow's own code takes its time",
    )
    assert outcome.values == {"errors": [], "limits": ["7884 MiB", "7884 MiB"]}, outcome.log


def test_variables_and_card_change_between_import_and_use(run_on_card: RunOnCard) -> None:
    """The GPU is chosen after `import tensorflow`, and is fuller by then: its own limit."""
    outcome = run_on_card(
        f"""
import gpuconf.auto
import tensorflow as tf
{LIMITS}
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
card.set_desktop_bytes(8000 << 20, index=1)
tf.constant([1.0])
report(limits=limits(), planned=gpuconf.activation().plan.gpus[0].gpu.index)
card.set_desktop_bytes(1945 << 20, index=1)
import importlib
importlib.reload(tf)
report(reloaded=tf.constant([2.0]).numpy().shape)
"""
    )
    assert outcome.values["limits"] == ["2112 MiB"], outcome.log
    assert outcome.values["planned"] == 1
    assert outcome.values["reloaded"] == [1]
    said = "gpuconf: CUDA_VISIBLE_DEVICES=1 was set after gpuconf was imported; planning again\n"
    assert outcome.log.count(said) == 1


def test_two_that_start_together(run_on_card: RunOnCard) -> None:
    """Both imported on an empty GPU; the second to make devices plans with what the first left."""
    outcome = run_on_card(
        f"""
import gpuconf.auto
import tensorflow as tf
{LIMITS}
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
ready, over = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    hog = tf.raw_ops.Empty(shape=[7, 1024, 256, 1024], dtype=tf.float32)
    os.write(ready[1], b"x")
    os.read(over[0], 1)
    os._exit(0)
os.read(ready[0], 1)
try:
    tf.constant([1.0])
except gpuconf.ShortageError as error:
    report(short=error.shortage)
os.write(over[1], b"x")
os.waitpid(pid, 0)
tf.constant([1.0])
report(after=limits())
""",
        "dedicated",
    )
    assert "5632 MiB at_least" in outcome.values["short"], outcome.log
    assert outcome.values["after"] == ["7783 MiB"]


def test_a_fork_after_the_devices(run_on_card: RunOnCard) -> None:
    """CUDA cannot be used in such a child: one line says so, at its first use, and what helps."""
    outcome = run_on_card(
        f"""
import gpuconf.auto
import tensorflow as tf
tf.constant([1.0])
{LIMITS}
from tensorflow.python.eager import context
pid = os.fork()
if pid == 0:
    for _ in range(2):
        context.context().ensure_initialized()
    os._exit(0)
os.waitpid(pid, 0)
"""
    )
    line = r"was forked after TensorFlow initialized its GPUs \(at \S*program\d+\.py:\d+\)"
    assert len(re.findall(line, outcome.log)) == 1, outcome.log
    assert "'spawn' start method" in outcome.log


def test_an_interrupt_while_the_plan_goes_to_tensorflow(run_on_card: RunOnCard) -> None:
    """At any line of the guards and the devices: it is not bound, and the next listing binds it."""
    outcome = run_on_card(
        f"""
import gpuconf.auto
import tensorflow as tf
{LIMITS}
from gpuconf.session import configure
from gpuconf.backends.tensorflow import runtime
from tests.programs.interrupts import interruptions
here = os.path.dirname(gpuconf.__file__)
traced = os.path.join(here, "backends")
guards, wrong, number = runtime._guards, [], 0
from tensorflow.python.eager import context
context.context()._physical_devices = None
for number in interruptions(guards.configure, traced):
    if configure._binding.is_bound or guards.is_configured:
        wrong.append(number)
tf.constant([1.0])
report(wrong=wrong, lines=number, limits=limits())
"""
    )
    assert outcome.values["wrong"] == [], outcome.log
    assert outcome.values["lines"] > 100
    assert outcome.values["limits"] == ["7884 MiB", "7884 MiB"]


EVIL = """
#include <stdio.h>
__attribute__((constructor)) static void run(void) { fclose(fopen(MARK, "w")); }
"""


def test_a_hostile_folder_loads_no_library(tmp_path: Path) -> None:
    """A downloaded gpuconf.yaml names a library; one's own tool runs there. Named, it is obeyed."""
    folder, mark = tmp_path / "downloaded", tmp_path / "code-ran"
    folder.mkdir()
    (tmp_path / "evil.c").write_text(EVIL)
    compiler = standin.compiler()
    assert compiler is not None, "the stand-ins need a C compiler"
    options = ["-shared", "-fPIC", f'-DMARK="{mark}"', "-o", str(folder / "evil.so")]
    subprocess.run([compiler, *options, str(tmp_path / "evil.c")], check=True)
    profile = folder / "gpuconf.yaml"
    profile.write_text("env: {TF_PLUGGABLE_DEVICE_LIBRARY_PATH: ./evil.so}\n")
    tool = tmp_path / "own_tool.py"
    tool.write_text("import gpuconf.auto\nimport tensorflow\n")

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(tool)],
            cwd=folder,
            env=clean_environment(tmp_path, more),
            capture_output=True,
            text=True,
            check=False,
        )

    refused = run()
    assert refused.returncode == 1
    assert "TF_PLUGGABLE_DEVICE_LIBRARY_PATH" in refused.stderr
    assert "gpuconf trust" in refused.stderr
    assert not mark.exists()
    run(GPUCONF_PROFILE=str(profile))
    assert mark.exists()  # so the library would have been loaded
