"""Make the logs again: run each program of recipes.yaml on a simulated GPU, keep what it printed.

    python -m tests.commands.explain.simulated.make_logs [OPTIONS] [NAME...]

    NAME...                            make these logs, or all
    --list                             the table: each log and the command that made it
    --python-2.15 PATH                 a Python with TensorFlow 2.15, for the logs that want it

``expected.json`` says by hand, for each log, its cause and severity, what else counts as right, and
the facts that are known from the program; after a change of a program, look at both.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
LOGS = HERE / "logs"
TIMEOUT_S = 90
CUDNN_MAJOR = {"2.15": 8, "2.21": 9}
CUBLAS_MAJOR = 12
NEUTRAL_FOLDER = "/home/me"
NEUTRAL_PACKAGES = "/home/me/venv/lib/python3.11"


class Recipe(NamedTuple):
    """A row of recipes.yaml, which says what each field is."""

    name: str
    program: str
    card: str = "--total 2GiB"
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    extra: Sequence[str] = ()
    tensorflow: str = "2.21"
    preload: str | None = None
    notebook: bool = False


RECIPES = [
    Recipe(name, **row)
    for name, row in yaml.safe_load((HERE / "recipes.yaml").read_text(encoding="utf-8")).items()
]
# What the simulated GPU says of itself, which no real GPU says.
OWN_LINES = re.compile(rb"^gpuconf: .*\n", re.MULTILINE)


def command(recipe: Recipe, python: str = "python", train: str = "train.py") -> list[str]:
    """The command of a recipe, as it is run in a folder that has the program as ``train.py``."""
    program = [python, train, *recipe.arguments]
    if not recipe.card:
        return program
    card = ["--context=0B", *recipe.card.split(), "--"]
    return [python, "-m", "gpuconf.simcard", "run", *card, *program]


def shown_command(recipe: Recipe) -> str:
    """The command of a recipe as one would type it in ``programs/``."""
    settings = [f"{name}={value}" for name, value in recipe.environment.items()]
    if recipe.preload is not None:
        settings.append(f"LD_PRELOAD={library_name(recipe)}")
    words = command(recipe, train=f"{recipe.program}.py")
    tensorflow = "" if recipe.tensorflow == "2.21" else f"  # TensorFlow {recipe.tensorflow}"
    return shlex.join([*settings, *words]) + tensorflow


def make(recipe: Recipe, python: str) -> Path:
    """Run a recipe and write its log; return the log's path."""
    with tempfile.TemporaryDirectory(prefix="train-") as name:
        folder = Path(name).resolve()
        lay_out(recipe, folder)
        environment = clean_environment(os.environ, python) | dict(recipe.environment)
        if recipe.preload is not None:
            environment["LD_PRELOAD"] = str(build(recipe, folder))
        printed = run(command(recipe, python), folder, environment)
        if recipe.notebook:
            printed = (folder / "notebook.ipynb").read_bytes()
        log = LOGS / f"{recipe.name}.{'ipynb' if recipe.notebook else 'log'}"
        log.parent.mkdir(exist_ok=True)
        log.write_bytes(neutral(printed, folder, python))
    return log


def lay_out(recipe: Recipe, folder: Path) -> None:
    """Copy the program as ``train.py``, whose name then tells nothing, and those next to it."""
    shutil.copyfile(PROGRAMS / f"{recipe.program}.py", folder / "train.py")
    for name in recipe.extra:
        shutil.copyfile(PROGRAMS / f"{name}.py", folder / f"{name}.py")


def clean_environment(environ: Mapping[str, str], python: str) -> dict[str, str]:
    """An environment without settings of TensorFlow, in which stdout and stderr keep their order.

    The compiler's and the cache's variables stay, which the simulated GPU needs.
    """
    kept = ("HOME", "LANG", "XDG_CACHE_HOME", "CC", "CXX", "TMPDIR")
    environment = {name: environ[name] for name in kept if name in environ}
    environment["PATH"] = os.pathsep.join((str(Path(python).parent), environ["PATH"]))
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def library_name(recipe: Recipe) -> str:
    """The name by which TensorFlow requests the library that a recipe preloads."""
    major = CUDNN_MAJOR[recipe.tensorflow] if recipe.preload == "cudnn" else CUBLAS_MAJOR
    return f"lib{recipe.preload}.so.{major}"


def build(recipe: Recipe, folder: Path) -> Path:
    """Compile the C source that a recipe preloads; it passes for the library of its name."""
    library = folder / library_name(recipe)
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    flags.append(f"-DCUDNN_MAJOR={CUDNN_MAJOR[recipe.tensorflow]}")
    subprocess.run(["cc", *flags, "-o", library, PROGRAMS / f"{recipe.preload}.c"], check=True)
    return library


def run(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bytes:
    """Run a command; return stdout and stderr as one stream, whatever its exit code."""
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # which `gpuconf.simcard run` passes on to the program
            raise
    print(f"  exit code {process.returncode}", flush=True)
    return printed


def neutral(printed: bytes, folder: Path, python: str) -> bytes:
    """What was printed, with paths, user and host of no one, and without the GPU's own lines."""
    for found, replacement in replacements(folder, python):
        printed = printed.replace(found.encode(), replacement.encode())
    return OWN_LINES.sub(b"", printed)


def replacements(folder: Path, python: str) -> Iterator[tuple[str, str]]:
    """Pairs of what this machine calls a thing and its neutral name, the longest paths first."""
    asked = "import sys; print(*sorted({sys.prefix, sys.base_prefix}, key=len), sep='\\n')"
    prefixes = subprocess.check_output([python, "-c", asked], text=True).split()
    yield str(folder), NEUTRAL_FOLDER
    for prefix in (str(Path(python).parent.parent), *reversed(prefixes)):
        for version in ("python3.10", "python3.11", "python3.12", "python3.13"):
            yield f"{prefix}/lib/{version}", NEUTRAL_PACKAGES
    yield str(HERE.parents[2]), f"{NEUTRAL_FOLDER}/gpuconf"
    yield socket.gethostname(), "workstation"
    if getpass.getuser() != "root":
        yield getpass.getuser(), "me"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the logs that are named, or all, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="logs to make (default: all)")
    parser.add_argument("--list", action="store_true", help="print the table and make nothing")
    parser.add_argument("--python-2.15", dest="older", metavar="PATH", help="has TensorFlow 2.15")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {recipe.name for recipe in RECIPES}
    if unknown:
        parser.error(f"no such log: {', '.join(sorted(unknown))}")
    chosen = [recipe for recipe in RECIPES if recipe.name in options.names or not options.names]
    for recipe in chosen:
        print(f"{recipe.name:26}{shown_command(recipe)}", flush=True)
        if options.list:
            continue
        python = sys.executable if recipe.tensorflow == "2.21" else options.older
        if python is None:
            print(f"  left as it is: needs --python-{recipe.tensorflow}")
            continue
        started = time.monotonic()
        log = make(recipe, python)
        print(f"  {log.stat().st_size} bytes in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
