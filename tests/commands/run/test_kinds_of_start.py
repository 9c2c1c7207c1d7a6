"""However a program is started under `gpuconf run`, TensorFlow has the plan's limit; read back."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, simulated_card
from tests.programs import processes
from tests.programs.card_clients import STORY

pytestmark = pytest.mark.slow

PYTHON = sys.executable
LIMIT = 3942  # MiB: half-card's 0.35 of 11264
# A program as users write it.  The limit is the one that TensorFlow's allocator has.
READS_LIMIT = """
import sys
from tensorflow.python.client import device_lib

def limits():
    return [d.memory_limit for d in device_lib.list_local_devices() if d.device_type == "GPU"]

def report(limits):  # one write: two programs at a time share what they print on
    sys.stdout.write(" ".join(["limit", *map(str, limits)]) + "\\n")
    sys.stdout.flush()

if __name__ == "__main__":
    report(limits())
"""
SPAWNS = """
import multiprocessing, sys
import reads_limit
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        reads_limit.report(pool.apply(reads_limit.limits))
"""
# As torchrun does: so many programs at a time, each with its rank.
LAUNCHES = """
import os, subprocess, sys
ranks = [dict(os.environ, LOCAL_RANK=str(rank)) for rank in range(int(sys.argv[1]))]
started = [subprocess.Popen([sys.executable, *sys.argv[2:]], env=rank) for rank in ranks]
sys.exit(max(child.wait() for child in started))
"""
# Computes, and starts a second one that would compute next to it.
STARTS_ANOTHER = """
import subprocess, sys, reads_limit
reads_limit.report(reads_limit.limits())
sys.exit(subprocess.call([sys.executable, "reads_limit.py"]))
"""


# Makes its devices while the other one is there, pinned to the GPU of its rank or not.
PINS = """
import os, sys, time
import tensorflow as tf
done = ["done" + sys.argv[1] + rank for rank in ("0", "1")]
gpus = tf.config.list_physical_devices("GPU")
if sys.argv[1] == "pins":
    tf.config.set_visible_devices(gpus[int(os.environ["LOCAL_RANK"])], "GPU")
try:
    sys.stdout.write(f"made {len(tf.config.list_logical_devices('GPU'))}\\n")
    sys.stdout.flush()
finally:
    open(done[int(os.environ["LOCAL_RANK"])], "w").close()
until = time.monotonic() + 100
while not all(map(os.path.exists, done)) and time.monotonic() < until:
    time.sleep(0.05)
"""


class Done(NamedTuple):
    """The exit code, each limit in MiB, stderr and stdout."""

    code: int
    limits: list[float]
    err: str
    out: str = ""


Run = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs."""
    made = tmp_path_factory.mktemp("starts")
    files = {
        "reads_limit.py": READS_LIMIT,
        "spawns.py": SPAWNS,
        "launches.py": LAUNCHES,
        "starts_another.py": STARTS_ANOTHER,
        "twice.sh": f"#!/bin/bash\n{PYTHON} reads_limit.py\n{PYTHON} - < reads_limit.py\n",
        "shebang": f"#!/usr/bin/env -S {PYTHON} -u\n{READS_LIMIT}",
        "package/__init__.py": "",
        "package/__main__.py": READS_LIMIT,
    }
    for name, text in files.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    (made / "twice.sh").chmod(0o755)
    (made / "shebang").chmod(0o755)
    return made


@pytest.fixture(scope="module")
def other_environment(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of a venv that has TensorFlow, and no gpuconf."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    site.joinpath("others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(home / "bin" / "python")
    # A folder of that name, which an editable install leaves there, has no __version__.
    code = "import gpuconf; gpuconf.__version__"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, check=False)
    assert done.returncode == 1
    return python


@pytest.fixture(scope="module")
def card() -> Iterator[Card]:
    """The story's GPU."""
    with simulated_card(STORY) as made:
        yield made


def run_on(card: Card, folder: Path, *words: str, options: tuple[str, ...] = ()) -> Done:
    """Run words under `gpuconf run` with half-card, and more options."""
    base = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    command = [PYTHON, "-m", "gpuconf", "run", "--profile", "half-card", *options, "--", *words]
    environ = {**card.environment(base), "CHILD": PYTHON}
    done = processes.run(command, folder, environ=environ, timeout_s=300)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("limit")]
    limits = [int(each) / MIB for line in lines for each in line]
    return Done(done.returncode, limits, done.stderr, done.stdout)


@pytest.fixture(scope="module")
def run(card: Card, folder: Path) -> Run:
    """Run words on the story's GPU."""
    return functools.partial(run_on, card, folder)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("./twice.sh",), 2),  # a script of bash: a file, and a program from standard input
        ((PYTHON, "-u", "-B", "-m", "package"), 1),
        (("sh", "-c", f"cd / && PYTHONDONTWRITEBYTECODE=1 {PYTHON} -c '{READS_LIMIT}'"), 1),
        ((PYTHON, "spawns.py", "spawn"), 1),
        pytest.param((PYTHON, "spawns.py", "fork"), 1, marks=pytest.mark.nightly),
        (("nice", "timeout", "250", "./shebang"), 1),
    ],
    ids=["bash+stdin", "-m", "-c", "spawn", "fork", "wrappers+shebang"],
)
def test_a_program_has_the_plans_limit(run: Run, words: tuple[str, ...], count: int) -> None:
    """Within 1 MiB of what `gpuconf run` has said."""
    done = run(*words)
    assert done.code == 0, done.err
    assert len(done.limits) == count
    assert all(abs(limit - LIMIT) < 1 for limit in done.limits), done.limits
    assert f"limit {LIMIT} MiB on GPU 0" in done.err
    assert "computed" not in done.err


def test_a_python_without_gpuconf(run: Run, other_environment: str) -> None:
    """Its TensorFlow gets the full guards anyway: they come from the run."""
    done = run(other_environment, "reads_limit.py")
    assert done.code == 0, done.err
    assert done.limits == [LIMIT]


def test_a_program_with_a_broken_gpuconf(run: Run, folder: Path) -> None:
    """One that cannot even be imported: what old Pythons get holds TensorFlow, too."""
    (folder / "broken" / "gpuconf").mkdir(parents=True)
    (folder / "broken" / "gpuconf" / "__init__.py").write_text("{}.missing\n")
    code = "import sys; sys.path.insert(0, 'broken'); import reads_limit as r; "
    done = run(PYTHON, "-c", f"{code}r.report(r.limits())")
    assert (done.code, done.limits) == (0, [LIMIT]), done.err


def test_a_launcher_and_its_processes(run: Run) -> None:
    """Two at a time share what is free; one that computes next to them is refused, with a cure."""
    both = ("--processes", "2", "--set", "memory.per_process_gpu_memory_fraction=0.9")
    done = run(PYTHON, "launches.py", "2", "reads_limit.py", options=both)
    assert done.code == 0, done.err
    each = (9319 - 128) // 2 - 640
    assert done.limits == [each, each]
    assert f"limit {each} MiB for each of 2 processes on GPU 0" in done.err
    refused = run(PYTHON, "starts_another.py")
    assert refused.limits == [LIMIT]
    assert refused.code == 1
    assert "`gpuconf run --processes 2" in refused.err


def test_each_process_is_counted_on_the_cards_it_uses(folder: Path) -> None:
    """Two that pin themselves to a GPU each run next to each other; two that do not do not."""
    (folder / "pins.py").write_text(PINS)
    with simulated_card(STORY._replace(count=2)) as cards:
        pinned = run_on(cards, folder, PYTHON, "launches.py", "2", "pins.py", "pins")
        loose = run_on(cards, folder, PYTHON, "launches.py", "2", "pins.py", "no")
    assert (pinned.code, pinned.out.count("made 1")) == (0, 2), pinned.err
    assert (loose.code, loose.out.count("made 2")) == (1, 1), loose.err
    assert "`gpuconf run --processes 2" in loose.err
