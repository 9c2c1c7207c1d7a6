"""The carried code on real old TensorFlows, by hand: ``python -m tests.injected.old_tensorflows``.

Each version is installed for its own Python below ``--venvs``, if it is not there yet, and makes
devices in every way that it has, on a simulated 8 GiB GPU under a plan of 2 GiB.  A way is held if
the program or TensorFlow's log says 2048 MiB; one that launches a kernel ends in that GPU,
which computes nothing there, and the log has the limit by then.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.basics.units import GIB
from gpuconf.simcard import CardSpec
from tests.injected.injected_runs import UUID, pythons, run_environment, variable
from tests.simcard.old_cuda import old_card

PROGRAM = Path(__file__).with_name("any_program.py")
_OLD = ("numpy<1.17", "h5py<3", "protobuf<3.18")
_SHARE = 0.25  # of the GPU, as a session's options have it


class Stack(NamedTuple):
    """What is installed on which Python, and the ways to make devices next to the common ones."""

    python: str
    packages: tuple[str, ...]
    ways: tuple[str, ...]


STACKS = {
    "1.4": Stack("3.6", (*_OLD, "tensorflow-gpu==1.4.1", "keras==2.1.6"), ("keras",)),
    "1.5": Stack("3.6", (*_OLD, "tensorflow-gpu==1.5.1", "keras==2.1.6"), ("keras",)),
    "1.8": Stack("3.6", (*_OLD, "tensorflow-gpu==1.8.0", "keras==2.1.6"), ("keras",)),
    "1.13": Stack(
        "3.7",
        (*_OLD, "tensorflow-gpu==1.13.2", "keras==2.2.4"),
        ("keras", "eager", "eager_config"),
    ),
    "1.15": Stack(
        "3.7",
        (*_OLD, "tensorflow-gpu==1.15.5", "keras==2.3.1"),
        ("keras", "eager", "eager_config"),
    ),
    "2.1": Stack("3.7", (*_OLD, "tensorflow-gpu==2.1.4"), ("eager", "tf_config")),
    "2.4": Stack(
        "3.8", ("numpy<1.20", "protobuf<3.18", "tensorflow-gpu==2.4.4"), ("eager", "tf_config")
    ),
    "2.13": Stack("3.9", ("tensorflow==2.13.1",), ("eager", "tf_config")),
}
_COMMON = ("session", "default", "monitored", "listing", "server")


def installed(name: str, venvs: Path) -> str:
    """The Python of the version's virtual environment, made on the first use."""
    stack, folder = STACKS[name], venvs / name
    python = str(folder / "bin" / "python")
    if not (folder / ".ready").exists():
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([pythons()[stack.python], "-m", "venv", str(folder)], check=True)
        subprocess.run([*pip, "pip==21.3.1"], check=True)
        subprocess.run([*pip, *stack.packages], check=True)
        (folder / ".ready").touch()
    return python


def limits(python: str, way: str) -> tuple[list[Any], str]:
    """What the program saw and TensorFlow's log said of the limit in MiB; and all of its output."""
    with tempfile.NamedTemporaryFile() as lease:
        text = variable(leases={UUID.format(0): lease.name})
        with old_card(CardSpec(total_bytes=8 * GIB, used_bytes=1 * GIB)) as card:
            environ = card.environment(run_environment(None))
            done = subprocess.run(
                [python, "-W", "ignore", str(PROGRAM), way],
                env={**environ, "GPUCONF_RUN": text, "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=300,
            )
    found: list[Any] = re.findall(r"Created TensorFlow device .*?GPU:0 with (\d+) MB", done.stdout)
    for line in done.stdout.splitlines():
        if line.startswith("SEEN "):
            seen = json.loads(line.removeprefix("SEEN "))
            known = ("greedy", "default", "listing", "server", "tf_config", "limit")
            found += [size for key in known for size in seen.get(key) or ()]
            found += [2048 if seen["share"] == _SHARE else seen["share"]] if "share" in seen else []
    return [float(size) for size in found], done.stdout


def main() -> int:
    """Try the versions; 1 if one makes devices with another limit, or says none."""
    parser = argparse.ArgumentParser(prog="python -m tests.injected.old_tensorflows")
    parser.add_argument("versions", nargs="*", help=f"of {', '.join(STACKS)}")
    parser.add_argument("--venvs", type=Path, default=Path(".venv-old-tensorflows"))
    options = parser.parse_args()
    failed = 0
    for name in options.versions or STACKS:
        python = installed(name, options.venvs.absolute())
        for way in (*_COMMON, *STACKS[name].ways):
            found, output = limits(python, way)
            is_held = bool(found) and set(found) == {2048}
            failed += not is_held
            print(f"TensorFlow {name:5} {way:13} {'held' if is_held else f'NOT HELD: {found}'}")
            if not is_held:
                print(output[-2000:], file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
