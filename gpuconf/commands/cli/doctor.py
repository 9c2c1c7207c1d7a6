"""``gpuconf doctor``: find what is wrong with this machine, and print the command that fixes it."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from gpuconf.commands.cli.output import Output
from gpuconf.commands.doctor import PROBE_TIMEOUT_S
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.support.command_line import describe, seconds_argument
from gpuconf.support.reporting.lines import Table

if TYPE_CHECKING:
    from gpuconf.commands.doctor.report import Report

_DESCRIPTION = """\
Check the driver, the GPUs, the installed frameworks, the environment and the
profile, and list what is wrong, each with a command that fixes it. Nothing is
changed, and no framework is imported, so it takes about a second."""

PARENT_OPTION = "--parent"
_FORMATS = ("text", "json", "github")
_EXAMPLES = """\
examples:
  gpuconf doctor                            # what is wrong; -v: every check
  gpuconf doctor driver environment.growth  # these checks only
  gpuconf doctor --python ~/tf/bin/python   # another Python's packages
  gpuconf doctor --script train.py          # also read a script
  gpuconf doctor source --script src/ --strict --format github   # for CI
  gpuconf doctor --probe                    # also run a computation on each GPU
  gpuconf doctor --report doctor.html       # a page for a bug report

exit codes:
  0  no problems, or warnings only
  1  a check failed; with --strict, also if one warned
  2  bad usage, such as an unknown profile or a page that cannot be written
  3  a check crashed, which is a bug in gpuconf"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("checks", nargs="*", metavar="CHECK",
        help="a check's id, or the first part of ids, such as driver (default: all)")  # fmt: skip
    add("--profile", metavar="PROFILE", help="examine as if this profile applied")
    add("--python", metavar="PYTHON",
        help="check the packages of this Python: a path, or a virtual environment's folder "
        "(default: the one that runs gpuconf)")  # fmt: skip
    add("--script", metavar="FILE", nargs="+", action="extend", default=[],
        help="also read these scripts and notebooks, and those in these folders, for known "
        "mistakes, without running them")  # fmt: skip
    add("--probe", action="store_true",
        help="also run a computation on each visible GPU under the profile, in a child process; "
        "usually takes about ten seconds")  # fmt: skip
    add("--timeout", type=seconds_argument, metavar="SECONDS",
        help=f"end the probe after this time (default {PROBE_TIMEOUT_S:.0f})")  # fmt: skip
    add("--report", metavar="FILE.html",
        help="also write one self-contained page, without user and host names")  # fmt: skip
    add("--strict", action="store_true", help="exit 1 on warnings too")
    add("-v", "--verbose", action="store_true", help="show every check, with details")
    add("--format", choices=_FORMATS, default="text",
        help="how to print the findings: human-readable, as one JSON document, or as GitHub "
        "workflow annotations")  # fmt: skip
    add(
        "--json",
        action="store_const",
        dest="format",
        const="json",
        help="the same as --format json",
    )
    add("--list-checks", action="store_true", help="list the checks without running any")
    add("--root", default="/", help=argparse.SUPPRESS)  # a tree of files, for tests
    add(PARENT_OPTION, help=argparse.SUPPRESS)  # in words, for %gpuconf
    parser.set_defaults(command=run, ipython=False)


def run(options: argparse.Namespace, output: Output) -> int:
    """Run the checks, print the findings, and return the exit code."""
    output.as_json = options.format == "json"
    part_words(options)
    if options.list_checks:
        return _list_checks(options, output)
    refuse_bad_words(options)
    report = examined(options, output)
    # Print the findings even if the page cannot be written, since a probe takes time.
    unwritten = None if options.report is None else _write_page(report, options.report)
    code = report.exit_code(strict=options.strict)
    if options.format == "text":
        _show(report, options, output)
    else:
        _write_format(report, options.format, output)
    if unwritten is not None:
        output.note(f"gpuconf: error: {unwritten}")
        return code or unwritten.exit_code
    if options.report is not None:
        output.note(f"wrote {options.report}")
    return code


def examined(options: argparse.Namespace, output: Output) -> Report:
    """Run the requested checks and return the report."""
    # Imported here so that other commands do not pay for it.
    from gpuconf.commands.doctor.examination import ExaminationRequest, examine

    return examine(
        ExaminationRequest(
            ids=tuple(options.checks),
            profile=options.profile,
            scripts=tuple(options.script),
            python=options.python,
            probe=options.probe,
            timeout_s=PROBE_TIMEOUT_S if options.timeout is None else options.timeout,
            root=options.root,
            parent=options.parent,
        ),
        progress=output.progress,
        command=_command(options),
    )


def _command(options: argparse.Namespace) -> str:
    """Return the command that repeats this examination."""
    words = ["gpuconf", "doctor", *options.checks]
    words += ["--profile", options.profile] if options.profile is not None else []
    words += ["--python", options.python] if options.python is not None else []
    words += ["--script", *options.script] if options.script else []
    return shlex.join([*words, "--probe"] if options.probe else words)


def _list_checks(options: argparse.Namespace, output: Output) -> int:
    from gpuconf.commands.doctor.examination import known_checks, selected

    known = known_checks()
    ids = selected(options.checks, known)
    listed = {name: about for name, about in known.items() if name in ids}
    if output.as_json:
        from gpuconf.commands.cli.documents import ChecksDocument, ListedCheck

        output.document(ChecksDocument(tuple(ListedCheck(*each) for each in listed.items())))
    else:
        output.table(Table(("CHECK", "WHAT IT LOOKS AT"), list(listed.items())))
    return 0


def refuse_bad_words(options: argparse.Namespace) -> None:
    """Check the arguments before anything runs, since a probe takes a minute.

    A profile named on the command line that cannot be loaded is an error here.  If the environment
    names it, it becomes a finding.
    """
    if options.profile is not None:
        from gpuconf.profile import load_profile

        load_profile(options.profile)
    if options.timeout is not None and not options.probe:
        hint = f"gpuconf doctor --probe --timeout {options.timeout:g}"
        raise UsageError("--timeout limits the probe, but --probe was not given", hint=hint)
    if options.python is not None and options.probe:
        hint = f"{shlex.quote(options.python)} -m gpuconf doctor --probe   # needs gpuconf there"
        raise UsageError(
            "--probe runs in the Python that runs gpuconf, not in the one that --python names",
            hint=hint,
        )
    if options.report is not None:
        from gpuconf.commands.doctor.page import check_page_path

        check_page_path(options.report)
    if options.script:
        from gpuconf.commands.doctor.source import scripts_in

        scripts_in(options.script)


def part_words(options: argparse.Namespace) -> None:
    """Treat a word after --script as a check if it names a check and not a file.

    For example ``--script train.py driver``.
    """
    if options.script[1:]:
        from gpuconf.commands.doctor.examination import known_checks

        groups = {part for each in known_checks() for part in (each, each.partition(".")[0])}
        first, *others = options.script
        checks = [each for each in others if each in groups and not os.path.exists(each)]
        options.script = [first, *(each for each in others if each not in checks)]
        options.checks = [*options.checks, *checks]


def _write_format(report: Report, form: str, output: Output) -> None:
    """Write the machine-readable report, with paths relative to the checkout of a workflow."""
    folder = os.path.abspath(os.environ.get("GITHUB_WORKSPACE") or os.getcwd())
    if form == "json":
        output.document(report)
    else:
        from gpuconf.commands.doctor.annotations import annotations_of

        for line in annotations_of(report, folder=folder):
            output.line(line)


def _write_page(report: Report, path: str) -> GpuconfError | None:
    """Write the page with names removed; return why it could not be written, or None if it was."""
    import socket

    from gpuconf.commands.doctor.page import write_page
    from gpuconf.commands.doctor.redaction import redactor_for

    home = os.path.expanduser("~")
    redactor = redactor_for(report, home=home, hosts=[socket.gethostname()], account=_account())
    try:
        write_page(redactor.report(report), path)
    except GpuconfError as error:
        return error
    return None


def _account() -> str | None:
    """Return the name of this account; None for a user id without a name, as in containers."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return None


def _show(report: Report, options: argparse.Namespace, output: Output) -> None:
    from gpuconf.commands.doctor.text import TextLayout, lines_of
    from gpuconf.support.reporting.memory_bars import GLYPHS

    shape = TextLayout(
        width=output.width,
        verbose=options.verbose or (bool(options.checks) and not report.is_of_many_files),
        ascii=not output.can_write(GLYPHS),
        ipython=options.ipython,
    )
    if options.checks and not any(name.split(".")[0] == "cards" for name in options.checks):
        report = report._replace(cards=())
    output.lines(lines_of(report, shape))
