"""ps and doctor for a notebook, in a process of their own.

A process neither sees its own lease nor may open its file (see `gpuconf.leases.lease`).  So a child
looks at the machine, as the command would, and hands over what is to be shown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from gpuconf import rich_display
from gpuconf.children.run import memory_file, whole_text_of
from gpuconf.cli.main import build_parser
from gpuconf.cli.output import Output
from gpuconf.errors import GpuconfError
from gpuconf.ipython.showing import NotebookOutput, Shown
from gpuconf.json_values import decoded, plain

_PROGRAM = "from gpuconf.ipython.child import main; main()"


def ask_child(words: Sequence[str], output: NotebookOutput) -> Shown:
    """What the command of ``words`` finds; its errors are raised here.

    The child's progress is this output's.
    """
    command = [sys.executable, "-c", _PROGRAM, *words]
    with memory_file("answer") as answer:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.PIPE, text=True
        )
        said = _follow(child, output)
        text = whole_text_of(answer)
    if child.returncode not in (0, 1):
        raise RuntimeError(f"gpuconf's own process ended with {child.returncode}:\n{said}")
    found = json.loads(text)
    if child.returncode == 1:
        raise GpuconfError(found["message"], hint=found["hint"])
    return decoded(Shown, found)


def _follow(child: subprocess.Popen[str], output: NotebookOutput) -> str:
    """Show the child's progress until it ends; return all that it said.

    ^C ends the child too, which ends what it has started.
    """
    lines = []
    with child:
        try:
            for line in child.stderr or ():
                lines.append(line)
                if line.startswith("… "):
                    output.progress(line.removeprefix("… ").rstrip())
        except BaseException:
            child.terminate()
            raise
    return "".join(lines)


def main() -> None:
    """The child: its words are a command's, its answer is JSON on stdout."""
    words = sys.argv[1:]
    options = build_parser(prog="%gpuconf").parse_args(words)
    code = 0
    try:
        answer = plain(_FOUND_BY[words[0]](options))
    except GpuconfError as error:
        answer, code = {"message": error.message, "hint": error.hint}, 1
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    sys.exit(code)


def _holdings(options: argparse.Namespace) -> Shown:
    from gpuconf.cli.ps import holdings_for
    from gpuconf.ipython.drawing.holdings import html_for

    found = holdings_for(options)
    return Shown(html_for(found, os.getppid()), rich_display.text_of(found))


def _report(options: argparse.Namespace) -> Shown:
    from gpuconf.cli.doctor import examined, part_words, refuse_bad_words

    part_words(options)
    refuse_bad_words(options)
    report = examined(options, Output())
    return Shown(rich_display.html_of(report), rich_display.text_of(report))


_FOUND_BY: dict[str, Callable[[argparse.Namespace], Shown]] = {
    "ps": _holdings,
    "doctor": _report,
}
