"""``python -m gpuconf.simcard``: run a program on a simulated GPU."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpuconf.basics.units import exact_size, parse_size_argument, sized
from gpuconf.errors import BackendError, GpuconfError, UsageError
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES
from gpuconf.simcard import simulated_card
from gpuconf.simcard.bridge import build_bridge
from gpuconf.simcard.card import (
    FILE_VARIABLE,
    PROCESSES,
    Card,
    CardSpec,
    create_card,
)
from gpuconf.simcard.installed import find_tensorflow
from gpuconf.simcard.libraries import build_libraries
from gpuconf.simcard.run import run_command
from gpuconf.simcard.wheels import WheelSupport, support_for_command
from gpuconf.simcard.xla import XlaSupport, xla_for_command
from gpuconf.support.command_line import CommandParser, card_size_argument, size_argument

_PROGRAM = "python -m gpuconf.simcard"
_COMMANDS = ("run", "env", "show", "build")
_FINDS_NO_CARD = re.compile(r"1\.|2\.(?:\d|1[0-4])\.")  # versions of TensorFlow

_DESCRIPTION = """\
Run programs on a SIMULATED GPU. The GPU memory code of TensorFlow, PyTorch and
JAX runs for real; the GPU, its driver, NVML and cuDNN are simulated, and
device memory is host memory. TensorFlow runs its CPU kernels on it (the kernel
bridge, compiled once for the command's TensorFlow); PyTorch and JAX only
allocate memory. No CUDA kernel runs: a program that launches one is stopped with
the kernel's name (GPUCONF_SIMCARD_KERNELS=error makes the CUDA call fail)."""

_EXAMPLES = """\
examples:
  python -m gpuconf.simcard run --total 11264MiB --used 1945MiB -- python x.py
  python -m gpuconf.simcard run --card /tmp/card -- python x.py
      (in two terminals: two programs on one GPU)
  eval "$(python -m gpuconf.simcard env --total 8GiB --card /tmp/card)"
  python -m gpuconf.simcard show /tmp/card"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command: list[str] = []
    if "--" in words:
        place = words.index("--")
        words, command = words[:place], words[place + 1 :]
    try:
        _check_first_word(words, command)
        options = _parser().parse_args(words)
        if options.what == "run" and options.words:
            raise _dashes_forgotten(words[: -len(options.words)], options.words, command)
        return _dispatch(options, command)
    except GpuconfError as error:
        print(f"gpuconf: error: {error}", file=sys.stderr)
        return error.exit_code


def _check_first_word(words: Sequence[str], command: Sequence[str]) -> None:
    """Raise UsageError unless the first word is a command, for example if only options are
    given."""
    if words[:1] and (words[0] in ("-h", "--help") or not words[0].startswith("-")):
        return
    example = [*(words or ["--total", "8GiB"]), "--", *(command or ["gpuconf", "plan"])]
    raise UsageError(
        f"the first word must be one of {', '.join(_COMMANDS)}",
        hint=f"for example: {_PROGRAM} run {shlex.join(example)}",
    )


def _dashes_forgotten(
    before: Sequence[str], words: Sequence[str], command: Sequence[str]
) -> UsageError:
    """Return the error for a command without the dashes before it: ``run … python x.py``."""
    rest = [*words, "--", *command] if command else words
    return UsageError(
        f"{words[0]!r} is not an option; put the command after --",
        hint=f"{_PROGRAM} {shlex.join([*before, '--', *rest])}",
    )


def _dispatch(options: argparse.Namespace, command: list[str]) -> int:
    if options.what == "run":
        return _run(options, command)
    if command:
        raise UsageError(f"{options.what} accepts no command after --", hint="use run")
    if options.what == "env":
        return _print_environment(options)
    if options.what == "show":
        return _show(options.file)
    print(build_libraries())
    tensorflow = find_tensorflow(["python"], os.environ)
    if tensorflow is not None:
        print(build_bridge(tensorflow, progress=_progress).parent)
    stand_ins = _wheels(["python"]).folder
    if stand_ins is not None:
        print(stand_ins)
    return 0


def _run(options: argparse.Namespace, command: list[str]) -> int:
    if not command:
        raise UsageError(
            "no command to run",
            hint="put it after --: python -m gpuconf.simcard run --total 8GiB -- python script.py",
        )
    if options.card is not None:
        on = _started_with(options, command)  # before creating the file, which would remain
        return on(_open_or_create(options))
    with simulated_card(_spec(options)) as card:
        return _started_with(options, command)(card)


def _started_with(options: argparse.Namespace, command: Sequence[str]) -> Callable[[Card], int]:
    """Build what the command needs; return a function that runs it on a GPU."""
    bridge, wheels, xla = _bridge(options, command), _wheels(command), _xla(options, command)
    return lambda card: run_command(
        card, command, environ=os.environ, bridge=bridge, wheels=wheels, xla=xla
    )


def _bridge(options: argparse.Namespace, command: Sequence[str]) -> Path | None:
    """Return the kernel bridge for the command's TensorFlow; None without a bridge or
    TensorFlow."""
    tensorflow = None if options.no_bridge else find_tensorflow(command, os.environ)
    if tensorflow is None:
        return None
    try:
        return build_bridge(tensorflow, progress=_progress)
    except GpuconfError as error:
        if not _FINDS_NO_CARD.match(tensorflow.version):
            error.hint = (
                f"{error.hint}; or use --no-bridge, which simulates memory but computes no values"
            )
        raise


def _wheels(command: Sequence[str]) -> WheelSupport:
    return support_for_command(command, progress=_progress)


def _xla(options: argparse.Namespace, command: Sequence[str]) -> XlaSupport | None:
    if not options.xla:
        return None
    support = xla_for_command(command)
    if not support.is_from_wheel:
        _progress(f"XLA uses libdevice from {support.libdevice}")
    return support


def _progress(line: str) -> None:
    print(f"gpuconf: {line}", file=sys.stderr, flush=True)


def _print_environment(options: argparse.Namespace) -> int:
    """Print exports for a shell's eval, limited to the variables that the GPU changes."""
    if options.card is None:
        raise UsageError(
            "env needs a file for the GPU, which is kept until you remove it",
            hint="add --card /tmp/card",
        )
    bridge = _bridge(options, ["python"])
    wheels, xla = _wheels(["python"]), _xla(options, ["python"])
    card = _open_or_create(options)
    changed = card.environment(os.environ, bridge=bridge, wheels=wheels, xla=xla)
    for name, value in changed.items():
        if os.environ.get(name) != value:
            print(f"export {name}={shlex.quote(value)}")
    return 0


def _open_or_create(options: argparse.Namespace) -> Card:
    """Return the GPU for ``--card``; an existing file is used as it is and must fit the options."""
    if not os.path.exists(options.card):
        _refuse_size(options.card)
        return create_card(options.card, _spec(options))
    card = Card(os.path.abspath(options.card))
    there = card.describe()
    for name, asked in _given(options).items():
        if getattr(there, name) != asked:
            raise UsageError(
                f"card file {options.card} has {name} {getattr(there, name)}, "
                f"but {asked} was requested",
                hint=f"leave the option out, or remove the file first: rm {options.card}",
            )
    return card


def _refuse_size(file: str) -> None:
    """Raise UsageError for ``--card 8GiB``, a size in place of a file name."""
    try:
        parse_size_argument(file)
    except ValueError:
        return
    raise UsageError(
        f"--card {file}: this is a size, but the option expects the name of the card file",
        hint=f"did you mean --total {file}? For a file with that name: --card ./{file}",
    )


def _show(file: str | None) -> int:
    if file is None:
        known = os.environ.get(FILE_VARIABLE)
        raise UsageError(
            "show requires a GPU file",
            hint=f"{_PROGRAM} show {shlex.quote(known or '/tmp/card')}",
        )
    card = Card(file)
    try:
        spec = card.describe()
    except BackendError as error:
        if os.path.isfile(file) and os.access(file, os.R_OK | os.W_OK):  # another kind of file
            error.hint = f"create one: {_PROGRAM} env --card /tmp/card"
        raise
    print(
        f"{spec.name}: compute capability {spec.compute_capability}, driver "
        f"{spec.driver_version}, CUDA {spec.cuda_version[0]}.{spec.cuda_version[1]}"
    )
    for index in range(spec.count):
        processes = card.processes(index)
        used_bytes = card.used_bytes(index)
        desktop_bytes = used_bytes - sum(process.used_bytes for process in processes)
        print(
            f"GPU {index} ({card.uuid(index)}): {sized(used_bytes)} of {sized(spec.total_bytes)} "
            f"in use, including {sized(desktop_bytes)} by the desktop"
        )
        for process in processes:
            print(f"  process {process.pid}: {sized(process.used_bytes)}")
    return 0


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the GPU options given on the command line, by their names in CardSpec."""
    names = CardSpec._fields
    return {
        name: value for name, value in vars(options).items() if name in names and value is not None
    }


def _spec(options: argparse.Namespace) -> CardSpec:
    return CardSpec(context_bytes=CONTEXT_BYTES)._replace(**_given(options))


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog=_PROGRAM,
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run a command on a simulated GPU: run ... -- COMMAND",
        usage="%(prog)s [OPTION]... -- COMMAND [ARGUMENT]...",
        epilog=f"for example: {_PROGRAM} run --total 8GiB -- python script.py",
    )
    env = commands.add_parser("env", help="print the exports that make a shell use a simulated GPU")
    for each in (run, env):
        _add_card_options(each)
    # Takes everything from the first word that is not an option: a command without the dashes,
    # which main() reports.
    run.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program to run"
    )
    show = commands.add_parser("show", help="show which processes use a simulated GPU")
    show.add_argument("file", nargs="?", metavar="FILE", help=f"a card file (${FILE_VARIABLE})")
    commands.add_parser(
        "build", help="build the stand-ins and the kernel bridge; print their folders"
    )
    return parser


def _add_card_options(parser: argparse.ArgumentParser) -> None:
    default = CardSpec()
    add = parser.add_argument
    add("--total", dest="total_bytes", type=card_size_argument, metavar="SIZE",
        help=f"memory of each GPU (default {exact_size(default.total_bytes)})")  # fmt: skip
    add("--used", dest="used_bytes", type=size_argument, metavar="SIZE",
        help="memory that the desktop uses on each GPU (default 0B)")  # fmt: skip
    add("--context", dest="context_bytes", type=size_argument, metavar="SIZE",
        help="size of each process's CUDA context, 300 to 600 MB on a GPU (default "
        f"{exact_size(CONTEXT_BYTES)})")  # fmt: skip
    add("--count", type=int, metavar="N", help="number of GPUs (default 1)")
    add("--name", help=f"name of the simulated GPU (default {default.name!r})")
    add("--compute-capability", metavar="X.Y",
        help=f"determines TensorFlow's reserve (default {default.compute_capability})")  # fmt: skip
    add("--driver-version", metavar="V", help=f"(default {default.driver_version})")
    add("--processes", choices=PROCESSES,
        help="what NVML reports about processes: exact (default); unknown use, as under WSL2; "
        "host-pids, as in containers; or none")  # fmt: skip
    add("--unified", action="store_true", default=None,
        help="NVML reports no memory, as on machines whose GPU shares host memory")  # fmt: skip
    add("--xla", action="store_true",
        help="compile jit_compile functions, with the memory that XLA assigns "
        "(default: run them op by op)")  # fmt: skip
    add("--no-bridge", action="store_true",
        help="omit the kernel bridge: memory works, computed values do not")  # fmt: skip
    add("--card", metavar="FILE",
        help="share the GPU in this file; created if missing, and kept")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
