"""The failure that started this project, and its cure, on the stacks of its time: `make legacy`.

A script that requests 0.9 of the GPU runs on a simulated GPU of 8 GiB of which a desktop holds
1 GiB: alone, and unmodified under `gpuconf run`.  A third program shows that such a GPU never
passes off a number that it has not computed.  Prints a transcript in Markdown.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.basics.units import GIB
from gpuconf.simcard import CardSpec
from tests.simcard.old_cuda import old_card

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "tests/acceptance/programs/keras_2018.py"
KERNEL_PROGRAM = "tests/acceptance/programs/kernel_2018.py"
CARD = CardSpec(total_bytes=8 * GIB, used_bytes=1 * GIB)
LIMIT_MIB = 2048
RUN = ("gpuconf", "run", "--set", "memory.memory_limit=2GiB", "--")
_TIMEOUT_S = 600


class Stack(NamedTuple):
    """A TensorFlow of its time: what is installed, on which Python, into which folder."""

    title: str
    python: tuple[int, int]
    folder: str
    packages: tuple[str, ...]

    @property
    def variable(self) -> str:
        """The environment variable that names the interpreter, such as PYTHON36."""
        return "PYTHON{}{}".format(*self.python)

    @property
    def interpreter(self) -> str:
        """Its interpreter's name, such as python3.6."""
        return "python{}.{}".format(*self.python)


STACKS = {
    "1.8": Stack(
        "TensorFlow-GPU 1.8.0, Keras 2.1.6, CUDA 9.0, Python 3.6",
        (3, 6),
        ".venv-legacy",
        ("numpy<1.17", "h5py<3", "protobuf<3.18", "tensorflow-gpu==1.8.0", "keras==2.1.6"),
    ),
    "1.15": Stack(
        "TensorFlow-GPU 1.15.5, Keras 2.3.1, CUDA 10.0, Python 3.7",
        (3, 7),
        ".venv-legacy-tf115",
        ("numpy<1.19", "h5py<3", "protobuf<3.21", "tensorflow-gpu==1.15.5", "keras==2.3.1"),
    ),
}
# The last pip for Python 3.6; the one that comes with it takes packages that need a newer Python.
_PIP = "pip==21.3.1"


class LegacyError(Exception):
    """A stack that cannot be installed, or a step that did not go as promised."""


# ---- the interpreter and its environment ----


def interpreters(stack: Stack, environ: Mapping[str, str]) -> Iterator[str]:
    """Where an interpreter for ``stack`` may be; one that is named is the only one."""
    if named := environ.get(stack.variable):
        yield named
        return
    home = environ.get("HOME", "~")
    version = "{}.{}".format(*stack.python)
    if found := shutil.which(stack.interpreter, path=environ.get("PATH")):
        yield found
    roots = [
        f"{environ.get('PYENV_ROOT') or f'{home}/.pyenv'}/versions/{version}.*",
        *(f"{home}/{name}/envs/*" for name in (".conda", "miniconda3", "anaconda3", "miniforge3")),
    ]
    if conda := environ.get("CONDA_EXE"):
        roots.append(f"{Path(conda).parents[1]}/envs/*")
    for root in roots:
        yield from sorted(glob.glob(f"{root}/bin/{stack.interpreter}"))


def find_python(stack: Stack, environ: Mapping[str, str]) -> str:
    """An interpreter that really is of the stack's version.

    Raises LegacyError, with how to get one, where there is none.
    """
    code = f"import sys, ensurepip, venv; print(sys.version_info[:2] == {stack.python!r})"
    for candidate in interpreters(stack, environ):
        command = [candidate, "-c", code]
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:
            continue
        if said == "True\n":
            return candidate
    version = "{}.{}".format(*stack.python)
    raise LegacyError(
        f"{stack.title} needs Python {version} with venv, and there is none: looked at "
        f"${stack.variable}, for {stack.interpreter} on PATH, and in the folders of pyenv and "
        f"conda.\n  hint: pyenv install {version}, or conda create -n py{version} python={version}"
        f" (no package index and few systems still have it),\n  then: make legacy "
        f"{stack.variable}=/path/to/{stack.interpreter}"
    )


def installed(stack: Stack, environ: Mapping[str, str]) -> Path:
    """The Python of the stack's virtual environment, made on the first use."""
    folder = ROOT / stack.folder
    python = folder / "bin" / "python"
    if (folder / ".ready").exists():
        return python
    print(f"{stack.folder}: installing", file=sys.stderr, flush=True)
    base = find_python(stack, environ)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [base, "-m", "venv", "--clear", str(folder)],
        [*pip, _PIP],
        [*pip, *stack.packages],
    ):
        if subprocess.run(command, check=False).returncode != 0:
            raise LegacyError(f"{stack.folder}: this failed, see above: {' '.join(command)}")
    (folder / ".ready").touch()
    return python


# ---- the two steps ----


class Step(NamedTuple):
    """What a program left: its exit code, and all that it wrote."""

    code: int
    output: str

    @property
    def device_mib(self) -> int | None:
        """The memory of the device that TensorFlow says it created."""
        found = re.search(
            r"Created TensorFlow device \(.*GPU:0 with (\d+) MB memory\)", self.output
        )
        return int(found[1]) if found else None

    @property
    def is_out_of_memory(self) -> bool:
        """Whether TensorFlow wrote the line that people searched the web for."""
        return re.search(r"failed to allocate .* CUDA_ERROR_OUT_OF_MEMORY", self.output) is not None

    def lines(self) -> list[str]:
        """Those worth showing: of the device, of the failure, of gpuconf and of the program."""
        worth = re.compile(
            r"Created TensorFlow device|CUDA_ERROR_OUT_OF_MEMORY|^gpuconf|^Keras .*trained|Error\b"
        )
        found = (line for line in self.output.splitlines() if worth.search(line))
        return [re.sub(r"^[-0-9]+ [0-9:.]+: ", "", line) for line in found]


def run_on_card(command: Sequence[str]) -> Step:
    """Run ``command`` on a fresh GPU, from the root of the project."""
    with old_card(CARD) as card:
        environ = {
            name: value
            for name, value in card.environment(os.environ).items()
            if not name.startswith(("TF_", "GPUCONF_P", "CUDA_VISIBLE", "PYTHON"))
        }
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    return Step(done.returncode, done.stdout)


def alone_faults(step: Step) -> list[str]:
    """What of the script alone did not go as promised."""
    faults = []
    if step.device_mib is None or step.device_mib < 0.89 * CARD.total_bytes / 2**20:
        faults.append(f"a device with 0.9 of the GPU was promised, and it has {step.device_mib} MB")
    if not step.is_out_of_memory:
        faults.append("CUDA_ERROR_OUT_OF_MEMORY was promised, and it did not come")
    return faults


def capped_faults(step: Step) -> list[str]:
    """What of the script under `gpuconf run` did not go as promised."""
    faults = []
    if step.code != 0:
        faults.append(f"exit code 0 was promised, and it is {step.code}")
    if step.device_mib is None or not LIMIT_MIB - 1 <= step.device_mib <= LIMIT_MIB:
        faults.append(f"a device with {LIMIT_MIB} MB was promised, not {step.device_mib} MB")
    if "CUDA_ERROR" in step.output:
        faults.append("no CUDA error was promised, and there is one")
    said = re.findall(r"^gpuconf.*\b0\.9\b", step.output, re.MULTILINE)
    if len(said) != 1:
        faults.append(f"one line about the 0.9 was promised, and there are {len(said)}")
    return faults


def kernel_faults(step: Step) -> list[str]:
    """What of the program that launches a kernel did not go as promised."""
    faults = []
    if step.code == 0 or "RESULT" in step.output:
        faults.append("no number was promised, and the program continued")
    if "gpuconf simulated GPU: the program launched the GPU kernel" not in step.output:
        faults.append("the kernel's name was promised, and it is not there")
    return faults


# ---- the transcript ----


def shown(command: Sequence[str], step: Step, faults: Sequence[str]) -> str:
    """One step in Markdown."""
    lines = [f"$ {' '.join(command)}", *step.lines(), f"(exit code {step.code})"]
    wrong = "".join(f"\n**Not as promised: {fault}.**\n" for fault in faults)
    return "\n".join(["```", *lines, "```", wrong])


def report(stack: Stack, python: Path) -> tuple[str, bool]:
    """Run all steps; the section of the transcript, and whether all went as promised."""
    print(f"{stack.folder}: alone, under gpuconf run, a kernel", file=sys.stderr, flush=True)
    run = [sys.executable, "-m", *RUN]
    steps = (
        ("Alone:", ["python", PROGRAM], [str(python), PROGRAM], alone_faults),
        (
            "Unmodified, under `gpuconf run`:",
            [*RUN, "python", PROGRAM],
            [*run, str(python), PROGRAM],
            capped_faults,
        ),
        (
            "What the simulated GPU does not compute, it refuses:",
            ["python", KERNEL_PROGRAM],
            [str(python), KERNEL_PROGRAM],
            kernel_faults,
        ),
    )
    parts, as_promised = [f"## {stack.title}\n"], True
    for title, words, command, faults_of in steps:
        step = run_on_card(command)
        faults = faults_of(step)
        as_promised = as_promised and not faults
        parts += [f"{title}\n", shown(words, step, faults)]
    return "\n".join(parts), as_promised


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the story on each stack; 1 if one could not be installed or broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.legacy", description=__doc__)
    parser.add_argument("stacks", nargs="*", metavar="VERSION", help=f"of {', '.join(STACKS)}")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the transcript there too")
    options = parser.parse_args(arguments)
    if unknown := set(options.stacks) - set(STACKS):
        parser.error(f"no such stack: {', '.join(sorted(unknown))}; there are {', '.join(STACKS)}")
    sections, failed = [], []
    for name in options.stacks or STACKS:
        try:
            section, as_promised = report(STACKS[name], installed(STACKS[name], os.environ))
            sections.append(section)
        except LegacyError as error:
            print(f"legacy: {error}", file=sys.stderr)
            as_promised = False
        if not as_promised:
            failed.append(name)
    page = "\n".join(sections)
    print(page)
    if failed:
        print(f"legacy: not as promised: {', '.join(failed)}, see above", file=sys.stderr)
        return 1
    if options.write is not None:
        options.write.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
