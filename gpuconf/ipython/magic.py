"""``%gpuconf COMMAND …``: the commands of the command line, with answers drawn in the notebook.

A command's own parser reads the arguments, and its own function computes the answer.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from gpuconf.basics.terminal import say, show_no_traceback
from gpuconf.commands.cli.main import build_parser
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.ipython.child import IN_A_CHILD, run_child
from gpuconf.ipython.drawing import BY_TYPE, of_diagnosis
from gpuconf.ipython.failures import Failures
from gpuconf.ipython.showing import NotebookOutput, is_notebook
from gpuconf.support.command_line import COMMANDS

if TYPE_CHECKING:
    from gpuconf.commands.explain import Diagnosis
    from gpuconf.planner import Plan

NAME = "gpuconf"
_PROG = f"%{NAME}"
_ISOLATED = "isolated"
# The magic's commands, with their lines in `%gpuconf help`.
HELP = {
    "profile": "show the active profile, or choose one, before the framework is imported",
    "ps": COMMANDS["ps"],
    "plan": COMMANDS["plan"],
    "doctor": COMMANDS["doctor"],
    "explain": "show why the last cell, or the run in a log, failed, and what to change",
    "estimate": "show how much GPU memory a model in this notebook needs, and which batch fits",
    "profiles": COMMANDS["profiles"],
    "isolated": "with %% as a cell's first line: run the cell in its own process, and free its GPU "
    "memory",
    "docs": COMMANDS["docs"],
    "help": "this list, or what a command accepts: %gpuconf help plan",
}
# Commands that become another program, or need a terminal.
_IN_A_TERMINAL = tuple(name for name in COMMANDS if name not in HELP)


class GpuconfMagic:
    """The magic of one shell."""

    def __init__(self, shell: Any, failures: Failures) -> None:
        self._shell = shell
        self._failures = failures

    def run(self, line: str) -> None:
        """gpuconf's commands in a notebook: `%gpuconf help` lists them.

        A mistake produces one clear error without a traceback, and ends the cell, as an exception
        does.
        """
        with _without_tracebacks():
            self._run(_words_of(line))

    def run_cell(self, line: str, cell: str) -> None:
        """``%%gpuconf isolated``: the cell in its own process; an exception is shown as it is."""
        from gpuconf.ipython import isolated_cell

        call = None
        with _without_tracebacks():
            name, *words = _words_of(line) or [""]
            if name != _ISOLATED:
                raise UsageError(
                    f"`%{_PROG} {line.strip()}`: the first line of a cell can "
                    f"only be `%{_PROG} {_ISOLATED}`",
                    hint=f"{_PROG} help {_ISOLATED}",
                )
            call = isolated_cell.prepare(words, cell, self._shell)
        if call is not None:
            call()

    def _run(self, words: list[str]) -> None:
        name, *rest = words or ["help"]
        if name == "help" and rest:
            name, rest = rest[0], ["--help"]
        if name in ("help", "-h", "--help"):
            _show_help()
            return
        _refuse_unknown(name, rest)
        output = NotebookOutput(self._shell, as_json="--json" in rest)
        if name == "profile":
            from gpuconf.ipython import profile

            profile.run(rest, output)
        elif name == _ISOLATED:
            from gpuconf.ipython import isolated_cell

            isolated_cell.parser().print_help()
        elif name == "estimate":
            from gpuconf.ipython import estimate

            estimate.run(rest, self._shell.user_ns, output)
        else:
            options = build_parser(prog=_PROG).parse_args([name, *rest])
            if name == "explain" and options.log is None:
                self._explain_last(options, output)
            else:
                self._answer([name, *rest], options, output)
        output.flush()

    def _answer(
        self, words: list[str], options: argparse.Namespace, output: NotebookOutput
    ) -> None:
        """Draw the command's result; if no drawing is requested, print as the command does."""
        name = words[0]
        if name in IN_A_CHILD:
            run_child(words, color=is_notebook(self._shell))
        elif not is_notebook(self._shell) or _is_for_programs(options):
            _print(words, options, output)
        elif name in _FOUND_BY:
            found = _FOUND_BY[name](options, output)
            output.show(BY_TYPE[type(found).__name__](found))
        elif name == "docs" and options.topic is not None:
            from gpuconf.commands.cli.docs import page_text

            output.show_markdown(page_text(options.topic))
        else:
            options.command(options, output)

    def _explain_last(self, options: argparse.Namespace, output: NotebookOutput) -> None:
        found = self._failures.last()
        if options.plot is not None:
            raise UsageError(
                "an exception has no allocator dump to plot",
                hint=f"{_PROG} explain --plot {shlex.quote(options.plot)} train.log",
            )
        if options.json:
            output.document(found)
        else:
            output.show(of_diagnosis(found, source=None))


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    try:
        yield
    except SystemExit:  # argparse, after --help
        return
    except GpuconfError as error:
        show_no_traceback(error)
        raise error.with_traceback(None) from None
    except Exception:
        say("this is a bug in gpuconf; please report it with the traceback")
        raise


def _words_of(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"`{_PROG} {line}`: {error}", hint="close the quotation mark") from None


def _refuse_unknown(name: str, rest: list[str]) -> None:
    """Raise for unknown commands, and for commands that need a terminal."""
    if name in _IN_A_TERMINAL:
        raise UsageError(
            f"`{_PROG} {name}` must run in a terminal: it starts another program in its "
            "place, or draws on the screen",
            hint=f"!gpuconf {shlex.join([name, *rest])}",
        )
    if name not in HELP:
        close = get_close_matches(name, [*HELP, *COMMANDS], n=1)
        meant = f"did you mean `{_PROG} {close[0]}`? " if close else ""
        raise UsageError(
            f"`{_PROG}` does not recognize {name!r}",
            hint=f"{meant}`{_PROG} help` lists the commands",
        )


def _show_help() -> None:
    width = max(map(len, HELP))
    print(f"{_PROG} COMMAND: gpuconf's commands, in a notebook\n")
    for name, about in HELP.items():
        print(f"  {name:<{width}}  {about}")
    print(f"\n`{_PROG} help COMMAND` shows what a command accepts. In a terminal, or with ! before "
          f"gpuconf: {', '.join(_IN_A_TERMINAL)}.")  # fmt: skip


def _print(words: list[str], options: argparse.Namespace, output: NotebookOutput) -> None:
    """Print as the command does, but never show this process as if it were another program."""
    if words[0] == "plan":
        from gpuconf.commands.cli.plan import show

        show(_plan(options, output), options, output)
    else:
        options.command(options, output)


def _is_for_programs(options: argparse.Namespace) -> bool:
    """Whether the requested output is not a drawing: JSON, a list, a file."""
    asked = vars(options)
    return bool(asked.get("json") or asked.get("plot"))


def _plan(options: argparse.Namespace, _output: NotebookOutput) -> Plan:
    """Make the plan here: the command would count this kernel's memory as another program's."""
    from gpuconf.commands.cli.plan import asked
    from gpuconf.session.configure import plan, plan_in_force

    request = asked(options)
    if request.processes > 1:
        raise UsageError("one kernel is one process", hint="!gpuconf plan --processes 2")
    return plan_in_force() if request.is_default else plan(request.profile, **request.overrides)


def _diagnosis(options: argparse.Namespace, output: NotebookOutput) -> Diagnosis:
    from gpuconf.commands.cli.explain import explained

    if options.log == "-":
        raise UsageError(
            "a cell has no standard input to read a log from", hint=f"{_PROG} explain train.log"
        )
    return explained(options.log, output)


_FOUND_BY: Mapping[str, Callable[[argparse.Namespace, NotebookOutput], object]] = {
    "plan": _plan,
    "explain": _diagnosis,
}
