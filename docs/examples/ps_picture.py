"""Draw docs/ps.svg: `gpuconf ps` beside three real TensorFlow programs on a simulated card.

python ps_picture.py ../ps.svg

One program trains within its lease, one does without gpuconf, one waits for memory.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from gpuconf.cli.output import shown
from gpuconf.holdings.gathering import read_holdings, summed_up
from gpuconf.holdings.text import lines_of
from gpuconf.reporting.memory_bars import BarLayout
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card
from gpuconf.units import GIB, MIB

CARD = CardSpec(
    total_bytes=24 * GIB, used_bytes=700 * MIB, context_bytes=300 * MIB, name="GeForce RTX 3090"
)
COLUMNS = 100
PATIENCE_S = 120
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
PROFILES = {
    "train.py": "shared-desktop",
    "sweep.py": "./sweep.yaml",
}
WAITS = "extends: half-card\nmemory: {at_least: 6GiB, on_shortage: {wait: forever}}\n"


def main(path: str) -> None:
    """Start the programs, then draw in a process that sees the card, as `gpuconf ps` would be."""
    bridge = bridge_for_command([sys.executable])
    with simulated_card(CARD) as card, tempfile.TemporaryDirectory() as folder:
        environ = card.environment(os.environ, bridge=bridge)
        Path(folder, "sweep.yaml").write_text(WAITS)
        running = []
        try:
            for name, text in PROGRAMS.items():
                Path(folder, name).write_text(text)
                profile = PROFILES.get(name)
                more = {"GPUCONF_PROFILE": profile} if profile else {}
                child = subprocess.Popen(
                    [sys.executable, name],
                    cwd=folder,
                    env={**environ, **more},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                running.append(child)
                if name != "sweep.py":
                    child.stdout.readline()
            subprocess.run([sys.executable, __file__, "--draw", path], env=environ, check=True)
        finally:
            for child in running:
                child.kill()
                child.wait()


def draw(path: str) -> None:
    """The picture, once somebody waits; the same as text on stdout."""
    until = time.monotonic() + PATIENCE_S
    while not (holdings := summed_up(read_holdings())).waiting:
        if time.monotonic() > until:
            sys.exit("sweep.py does not wait")
        time.sleep(0.5)
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for line in lines_of(holdings, BarLayout(COLUMNS)):
        console.print(shown(line), soft_wrap=True)
        print(line.text)
    # Without fonts from the network, which a page's picture may not load.
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console.save_svg(path, title="gpuconf ps", code_format=form, unique_id="gpuconf-ps")


if __name__ == "__main__":
    draw(sys.argv[2]) if sys.argv[1] == "--draw" else main(sys.argv[1])
