"""`gpuconf ps` next to three real TensorFlow programs on a simulated GPU.

One program trains within its lease, one does without gpuconf, one waits for memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures.terminal import printed  # next to this file, in a folder that no package holds
from transcripts import environment

from gpuconf.basics.units import GIB, MIB
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card

PROMPT = "gpuconf ps"
ABOUT = (
    "gpuconf ps: a GPU as a bar; below it train.py with a lease and what it has taken of it, "
    "old_script.py without a lease, and sweep.py waiting in the queue"
)
CARD = CardSpec(total_bytes=24 * GIB, used_bytes=700 * MIB, context_bytes=300 * MIB)
PATIENCE_S = 300
TAKES = """
import tensorflow as tf
held = tf.Variable(tf.zeros([{mib}, 512, 512]))
print("holds", flush=True)
input()
"""
GROWS = """
import tensorflow as tf
tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
"""
PROGRAMS = {
    "train.py": "import gpuconf.auto\n" + TAKES.format(mib=5000),
    "old_script.py": GROWS + TAKES.format(mib=1800),
    "sweep.py": "import gpuconf.auto\n" + TAKES.format(mib=100),
}
PROFILES = {"train.py": "./lab.yaml", "sweep.py": "./sweep.yaml"}
LAB = "extends: shared-desktop\nmemory: {reserve: null}\n"  # the whole limit is reserved
WAITS = "extends: half-card\nmemory: {at_least: 6GiB, on_shortage: {wait: forever}}\n"


def output() -> str:
    """What it prints there, with colors."""
    bridge = bridge_for_command([sys.executable])
    with simulated_card(CARD) as card, tempfile.TemporaryDirectory(prefix="picture-") as name:
        home = Path(name)
        clean = environment(home, os.environ)
        clean.pop("NO_COLOR")
        environ = card.environment(clean, bridge=bridge)
        with _running(home, environ):
            _await_the_line(home, environ)
            return printed(["gpuconf", "ps"], environ, home)


@contextmanager
def _running(folder: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """The programs, of which the last waits in the queue."""
    Path(folder, "lab.yaml").write_text(LAB)
    Path(folder, "sweep.yaml").write_text(WAITS)
    running = []
    try:
        for name, text in PROGRAMS.items():
            Path(folder, name).write_text(text)
            profile = PROFILES.get(name)
            child = subprocess.Popen(
                [sys.executable, name],
                cwd=folder,
                env={**environ, **({"GPUCONF_PROFILE": profile} if profile else {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            running.append(child)
            if name != "sweep.py":
                child.stdout.readline()
        yield
    finally:
        for child in running:
            child.kill()
            child.communicate()


def _await_the_line(folder: Path, environ: Mapping[str, str]) -> None:
    until = time.monotonic() + PATIENCE_S
    asks = [sys.executable, "-m", "gpuconf", "ps", "--json"]
    while True:
        asked = subprocess.run(asks, cwd=folder, env=environ, check=True, stdout=subprocess.PIPE)
        if json.loads(asked.stdout)["waiting"]:
            return
        if time.monotonic() > until:
            raise TimeoutError("sweep.py does not wait in the queue")
        time.sleep(0.5)
