"""``gpuconf rehearse``: check whether a training run fits on a GPU that is not installed here."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpuconf.commands.cli.output import Drawn, Output, drawn, drop_unwritten
from gpuconf.commands.rehearse import plot, report
from gpuconf.commands.rehearse.document import InterruptedDocument, document_of
from gpuconf.commands.rehearse.notebooks import Notebook, notebook_in
from gpuconf.commands.rehearse.rehearse import OtherBatches, Rehearsal, rehearse
from gpuconf.commands.rehearse.runs import Orders, run_once
from gpuconf.commands.rehearse.target import host_shortage, target_card
from gpuconf.commands.rehearse.verdict import NO_VERDICT
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES
from gpuconf.profile import load_profile
from gpuconf.simcard import (
    CardSpec,
    XlaSupport,
    bridge_for_command,
    simulated_card,
    support_for_command,
    xla_for_command,
)
from gpuconf.simcard.compiling import check_platform
from gpuconf.support.children.signals import sigterm_as_exit
from gpuconf.support.children.starting import find_command
from gpuconf.support.command_line import (
    card_size_argument,
    check_picture,
    command_after_dashes,
    describe,
    positive,
    size_argument,
)

_OPTIONS = ("--card", "--used", "--context", "--count", "--profile", "--steps", "--batch",
            "--no-jit", "--plot", "--no-second-run", "--json")  # fmt: skip
_EXAMPLE = "gpuconf rehearse --card 8GiB -- python train.py"

_DESCRIPTION = """\
Run your unmodified training script for a few steps on a SIMULATED GPU of a
given size, and show whether it fits, its peak, what failed, and what would make
it fit. TensorFlow's own GPU code and allocator run; no GPU is needed. Each
training run ends after a few steps, and the script continues: validation,
predictions, the next model. From the first training run on, no model is saved,
what the script writes is diverted, and other programs are not started."""

_EXAMPLES = """\
examples:
  gpuconf rehearse --card 8GiB --used 1.2GiB -- python train.py --epochs 30
  gpuconf rehearse --card 24GiB --profile shared-desktop -- python train.py
  gpuconf rehearse --card 6GiB --batch 48 -- bash run.sh
  gpuconf rehearse --card 8GiB -- train.ipynb
  gpuconf rehearse --card 8GiB --count 2 --json -- python -m mypackage.train

exit codes:
  0    it fits
  1    it does not fit
  2    bad usage
  3    a bug in gpuconf
  4    no verdict: the script itself failed or trained nothing, or a requirement
       of the rehearsal is missing
  130  interrupted
any other exit code is the script's own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("--card", type=card_size_argument, metavar="SIZE",
        help="memory of the GPU, such as 8GB (as sold) or 8GiB (default: like this machine's "
        "GPU 0 now, else 8GiB)")  # fmt: skip
    add("--used", type=size_argument, metavar="SIZE",
        help="memory that other programs use, such as the desktop (default with --card: "
        "0B)")  # fmt: skip
    add("--context", type=size_argument, metavar="SIZE", default=CONTEXT_BYTES,
        help="reserved for the CUDA context, 300 to 600 MB on a GPU (default 450MiB)")  # fmt: skip
    add("--count", type=positive, metavar="N", default=1, help="number of GPUs (default 1)")
    add("--profile", metavar="PROFILE",
        help="as if `import gpuconf.auto` with this profile were the first line")  # fmt: skip
    add("--steps", type=positive, metavar="K", default=Orders().steps,
        help="steps of each training run (default 3)")  # fmt: skip
    add("--batch", type=_batch, metavar="N",
        help="a batch size other than the script's, in fit() and train_on_batch(); or auto: search "
        "for the largest that fits")  # fmt: skip
    add("--no-jit", action="store_true",
        help="as if jit_compile=False were set everywhere (default: XLA compiles what Keras or the "
        "script compiles on a GPU)")  # fmt: skip
    add("--plot", metavar="FILE", help="draw memory over time, as FILE.png or FILE.svg")
    add("--no-second-run", action="store_true",
        help="do not search for a batch that fits")  # fmt: skip
    add("--json", action="store_true",
        help="print one JSON document; the script's stdout then goes to stderr")  # fmt: skip
    add("words", nargs=argparse.REMAINDER, metavar="-- COMMAND",
        help="the training script, as you would start it")  # fmt: skip
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Rehearse, report, and exit with the verdict."""
    output.as_json = options.json  # a --json among the script's arguments is the script's
    words = command_after_dashes(options.words, _OPTIONS, _EXAMPLE)
    if options.profile is not None:
        load_profile(options.profile)  # report a bad profile before anything is built
    spec = target_card(options.card, options.used, options.context, count=options.count)
    code = NO_VERDICT
    try:
        check_platform()  # before a framework is looked for
        if options.plot is not None:
            check_picture(options.plot)
        notebook = notebook_in(words, os.environ)
        if notebook is None:
            find_command(words[0], os.environ)  # before anything is built for it
        with sigterm_as_exit():
            done = _rehearse(words, notebook, spec, options, output)
        code = done.exit_code
        picture = _drawn(done, options.plot)
        _show_rest(done, picture.path, output)
        output.flush()
        if picture.said is not None:
            output.note(picture.said)
    except GpuconfError as error:
        if error.exit_code == 1:  # 1 would mean that it does not fit
            error.exit_code = NO_VERDICT
        elif isinstance(error, UsageError):  # a shell's 127 would look like the script's own code
            error.exit_code = UsageError.exit_code
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        return _interrupted(stop, words, output)
    except OSError as error:
        return _unwritten(error, code, output)
    return code


def _drawn(done: Rehearsal, path: str | None) -> Drawn:
    if path is not None and not done.devices:
        return Drawn(said="no plot was drawn: the run left no trace of GPU memory")
    return drawn(plot.draw, done, path)


def _interrupted(stop: KeyboardInterrupt | SystemExit, words: list[str], output: Output) -> int:
    """Report the interruption, as a document if JSON was requested."""
    code = stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else 130
    if output.as_json:
        because = f"the rehearsal was interrupted by {signal.Signals(code - 128).name}"
        output.document(InterruptedDocument(True, "no verdict", because, code, tuple(words)))
    else:
        with _unread():
            output.note("gpuconf rehearse: interrupted; no verdict")
    with _unread():
        output.flush()
    return code


def _unwritten(error: OSError, code: int, output: Output) -> int:
    """Return the exit code if the report cannot be written: the verdict's, if there was one.

    main()'s codes for a closed pipe and a full disk are not used, since 0 and 1 are verdicts.
    """
    if error.filename is not None:
        raise error  # an error of a file, not of a stream
    drop_unwritten()
    if not isinstance(error, BrokenPipeError):
        with _unread():
            output.note(f"gpuconf: error: the report cannot be written: {error.strerror}")
    return code


@contextmanager
def _unread() -> Iterator[None]:
    """Ignore a closed pipe while writing."""
    try:
        yield
    except OSError:
        drop_unwritten()


def _rehearse(
    words: list[str],
    notebook: Notebook | None,
    spec: CardSpec,
    options: argparse.Namespace,
    output: Output,
) -> Rehearsal:
    environ = _without_other_cards(os.environ)

    def progress(text: str) -> None:
        with _unread():
            output.progress(text)

    started = words if notebook is None else notebook.kernel
    bridge = bridge_for_command(started, environ=environ, progress=progress)
    wheels = support_for_command(started, environ=environ, progress=progress)
    xla = None if options.no_jit else _xla(started, environ, output)
    with _unread():
        shortage = host_shortage(spec)
        if shortage is not None:
            output.note(f"note: {shortage}")
    with simulated_card(spec) as card:
        return rehearse(
            words,
            Orders(steps=options.steps, batch=options.batch or None, profile=options.profile),
            spec=spec,
            card=card,
            environ=card.environment(environ, bridge=bridge, wheels=wheels, xla=xla),
            xla=xla,
            other_batches=_other_batches(options),
            stdout_to_stderr=options.json,
            run=run_once if notebook is None else notebook.run,
            when_known=lambda done: _show_verdict(done, output),
        )


def _xla(started: Sequence[str], environ: Mapping[str, str], output: Output) -> XlaSupport | None:
    """Return what XLA needs to compile; if it cannot compile, print why and return None."""
    try:
        return xla_for_command(started, environ=environ)
    except GpuconfError as error:
        with _unread():
            output.note(
                "note: what Keras compiles on a GPU runs operation by operation here, and uses "
                f"a different amount of memory: {error}"
            )
        return None


def _batch(text: str) -> int:
    """Parse the requested batch size; 0 is ``auto``."""
    return 0 if text == "auto" else positive(text)


def _other_batches(options: argparse.Namespace) -> OtherBatches:
    if options.batch == 0:
        return "always"
    return "never" if options.no_second_run else "where it does not fit"


def _show_verdict(done: Rehearsal, output: Output) -> None:
    """Print the results of the first run; other batch sizes may be tried after it."""
    if output.as_json:
        return
    with _unread():
        output.line()
        output.prose(report.title(done), "dim")
        output.line()
        style = {"fits": "bold green", "does not fit": "bold red"}.get(done.verdict.answer, "bold")
        output.prose(report.headline(done), style)
        for warning in report.warnings(done):
            output.prose(f"  warning: {warning}", "yellow")
        if done.verdict.hint is not None:
            output.prose(f"  hint: {done.verdict.hint}")
        _show_sections(report.sections(done), output)
        output.flush()


def _show_rest(done: Rehearsal, picture: str | None, output: Output) -> None:
    """Print the results of further runs; with --json, everything."""
    if output.as_json:
        output.document(document_of(done, plot=picture))
        return
    _show_sections(report.advice_section(done), output)
    if done.devices:
        output.line()
        for text in report.reality(done):
            output.prose(text, "dim")


def _show_sections(sections: Sequence[report.ReportSection], output: Output) -> None:
    for section in sections:
        output.line()
        output.line(section.heading, "bold")
        output.lines(report.lines_of(section))
        if section.table is not None:
            output.table(section.table)


def _without_other_cards(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that name this machine's GPUs."""
    return {name: value for name, value in environ.items() if name != "CUDA_VISIBLE_DEVICES"}
