"""``gpuconf rehearse``: does a training fit on a card that is not here?"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from gpuconf.cli.output import Output, drop_unwritten
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.hardware import Gpu, read_inventory
from gpuconf.profile import load_profile
from gpuconf.rehearsal import plot, report
from gpuconf.rehearsal.rehearse import Rehearsal, rehearse
from gpuconf.rehearsal.runs import Orders
from gpuconf.rehearsal.verdict import NO_VERDICT
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card
from gpuconf.units import GIB, mib, parse_size

_DEFAULT_CARD_BYTES = 8 * GIB
_ENDS_US = (signal.SIGTERM, signal.SIGHUP)

_DESCRIPTION = """\
Run your own unmodified training script for a few steps on a SIMULATED GPU of a given size, and
tell whether it fits, its peak, what broke it, and what would make it fit. TensorFlow's GPU code
and its allocator are the real ones; there need be no GPU. After the steps the script is ended
where it stands: nothing that it would do afterwards is done, no model is saved. What it does
before and within the steps, it does; a callback that saves after each batch saves."""

_EXAMPLES = """\
examples:
  gpuconf rehearse --card 8GiB --used 1.2GiB -- python train.py --epochs 30
  gpuconf rehearse --card 24GiB --profile shared-desktop --plot memory.png -- python train.py
  gpuconf rehearse --card 6GiB --batch 48 -- bash run.sh      # another batch than the script's
  gpuconf rehearse --card 8GiB --count 2 --json -- python -m mypackage.train

exit codes: 0 it fits; 1 it does not; 2 bad usage; 3 a bug in gpuconf; 4 no verdict (the script
failed by itself or trained nothing, or something that a rehearsal needs is missing); any other
is the script's own; 130 interrupted."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command's arguments."""
    parser = commands.add_parser(
        "rehearse",
        help="run a training script for a few steps on a simulated card: does it fit?",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--card", type=_size, metavar="SIZE",
        help="memory of the card (default: as this machine's GPU 0 now, else 8GiB)")  # fmt: skip
    add("--used", type=_size, metavar="SIZE",
        help="what others hold on it, such as the desktop (default with --card: 0B)")  # fmt: skip
    add("--context", type=_size, metavar="SIZE", default=report.CONTEXT_BYTES,
        help="counted for the CUDA context, 300 to 600 MB on a GPU (default 450MiB)")  # fmt: skip
    add("--count", type=_positive, metavar="N", default=1, help="number of cards (default 1)")
    add("--profile", metavar="PROFILE",
        help="as if `import gpuconf.auto` with this profile were the first line")  # fmt: skip
    add("--steps", type=_positive, metavar="K", default=Orders().steps,
        help="training steps until the script is ended (default 3)")  # fmt: skip
    add("--batch", type=_positive, metavar="N",
        help="another batch size than the script's, in fit() and train_on_batch()")  # fmt: skip
    add("--plot", metavar="FILE", help="draw memory over time, as FILE.png or FILE.svg")
    add("--no-second-run", action="store_true",
        help="do not run it again with another batch to suggest one")  # fmt: skip
    add("--json", action="store_true",
        help="print one JSON document; the script's stdout goes to stderr then")  # fmt: skip
    add("words", nargs=argparse.REMAINDER, metavar="-- COMMAND",
        help="the training, as you would start it")  # fmt: skip
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Rehearse, report, and exit with the verdict."""
    output.as_json = options.json  # a --json among the script's own arguments is the script's
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        raise UsageError(
            "there is no command to rehearse",
            hint="put it after --: gpuconf rehearse --card 8GiB -- python train.py",
        )
    if options.profile is not None:
        load_profile(options.profile)  # a bad profile is told before anything is built
    _check_command(words[0])
    spec = _spec(options)
    code = NO_VERDICT
    try:
        if options.plot is not None:
            plot.check(options.plot)
        with _ended_in_order():
            done = _rehearse(words, spec, options, output)
        code = done.verdict.exit_code
        if options.plot is not None and done.devices:
            plot.draw(done, options.plot)
        _tell(done, options, output)
        output.flush()
    except GpuconfError as error:
        if error.exit_code == 1:  # which would say that it does not fit
            error.exit_code = NO_VERDICT
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        return _interrupted(stop, words, output)
    except OSError as error:
        return _unwritten(error, code, output)
    return code


def _check_command(name: str) -> None:
    """Raise UsageError for what cannot be started, before anything is built for it."""
    if shutil.which(name) is None:
        found = os.path.isfile(name) if os.sep in name else False
        reason = "it may not be executed" if found else "it was not found"
        hint = (
            f"start it with its Python: -- python {name}" if found else "check the command after --"
        )
        raise UsageError(f"cannot start {name!r}: {reason}", hint=hint)


def _interrupted(stop: KeyboardInterrupt | SystemExit, words: list[str], output: Output) -> int:
    """Programs that asked for a document get one, though there is nothing to tell."""
    code = stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else 130
    if output.as_json:
        because = f"the rehearsal was interrupted by {signal.Signals(code - 128).name}"
        document = {"simulated": True, "verdict": "no verdict", "because": because}
        output.document({**document, "exit_code": code, "command": words})
    with _unread():
        output.flush()
    return code


def _unwritten(error: OSError, code: int, output: Output) -> int:
    """The exit code though the report cannot be written: the verdict's, if there was one.

    0 and 1 are verdicts, so main()'s codes for a reader that is gone and a full disk will not do.
    """
    if error.filename is not None:
        raise error  # of a file, not of a stream
    drop_unwritten()
    if not isinstance(error, BrokenPipeError):
        with _unread():
            output.note(f"gpuconf: error: the report cannot be written: {error.strerror}")
    return code


@contextmanager
def _unread() -> Iterator[None]:
    """What is written here need not find a reader."""
    try:
        yield
    except OSError:
        drop_unwritten()


def _rehearse(
    words: list[str], spec: CardSpec, options: argparse.Namespace, output: Output
) -> Rehearsal:
    environ = _without_other_cards(os.environ)

    def tell(text: str) -> None:
        with _unread():
            output.progress(text)

    bridge = bridge_for_command(words, environ=environ, tell=tell)
    with _unread():
        _warn_of_a_small_host(spec, output)
    with simulated_card(spec) as card:
        return rehearse(
            words,
            Orders(steps=options.steps, batch=options.batch, profile=options.profile),
            spec=spec,
            card=card,
            environ=card.environment(environ, bridge=bridge),
            second_run=not options.no_second_run,
            stdout_to_stderr=options.json,
        )


def _tell(done: Rehearsal, options: argparse.Namespace, output: Output) -> None:
    drawn = options.plot if options.plot is not None and done.devices else None
    if output.as_json:
        output.document({**report.as_document(done), "plot": drawn})
        return
    output.line()
    output.line(report.title(done), "dim")
    output.line()
    style = {"fits": "bold green", "does not fit": "bold red"}.get(done.verdict.answer, "bold")
    output.line(report.headline(done), style)
    if done.verdict.hint is not None:
        output.line(f"  hint: {done.verdict.hint}")
    for section in report.sections(done):
        output.line()
        output.line(section.heading, "bold")
        for line in section.lines:
            output.line(f"  {line}")
        if section.table:
            output.table(section.table[0], section.table[1:])
    output.line()
    for line in (report.REAL, *report.SIMULATED):
        output.line(line, "dim")
    if drawn is not None:
        output.line(f"picture: {drawn}")
    elif options.plot is not None:
        output.note("no picture was drawn: the run left no trace of GPU memory")


def _spec(options: argparse.Namespace) -> CardSpec:
    """The card asked for, else a copy of this machine's first GPU, else one of 8 GiB."""
    spec = CardSpec(
        total_bytes=_DEFAULT_CARD_BYTES, context_bytes=options.context, count=options.count
    )
    if options.card is None:
        gpus = read_inventory().gpus
        if gpus:
            spec = _like(gpus[0], spec)
    else:
        spec = spec._replace(total_bytes=options.card)
    if options.used is not None:
        spec = spec._replace(used_bytes=options.used)
    if spec.used_bytes + spec.context_bytes >= spec.total_bytes:
        raise UsageError(
            f"nothing is left of the card: {mib(spec.used_bytes)} used and "
            f"{mib(spec.context_bytes)} for the CUDA context of {mib(spec.total_bytes)}",
            hint="give a larger --card, or a smaller --used or --context",
        )
    return spec


def _like(gpu: Gpu, spec: CardSpec) -> CardSpec:
    """``spec`` with what is known of a real GPU; the capability decides TensorFlow's reserve."""
    if gpu.total_bytes is None:
        return spec
    spec = spec._replace(total_bytes=gpu.total_bytes, used_bytes=gpu.used_bytes or 0)
    if gpu.compute_capability is None:
        return spec
    major, minor = gpu.compute_capability
    return spec._replace(compute_capability=f"{major}.{minor}")


def _without_other_cards(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what names GPUs of this machine: they are not the card's."""
    return {name: value for name, value in environ.items() if name != "CUDA_VISIBLE_DEVICES"}


def _warn_of_a_small_host(spec: CardSpec, output: Output) -> None:
    """Device memory is this machine's memory, taken as it is used."""
    free = spec.count * (spec.total_bytes - spec.used_bytes)
    available = _available_bytes()
    if available is not None and available < free:
        output.note(
            f"note: the card has {mib(free)} free and this machine {mib(available)}: a script that "
            "really uses more than that is killed, and no verdict comes of it"
        )


def _available_bytes() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """A signal that ends us ends what we started first, as ^C does."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in _ENDS_US}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
