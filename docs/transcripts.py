"""Run the commands of the pages' blocks that are marked for it, and write their output there.

`make transcripts`, or `python docs/transcripts.py PAGE …`; tests/documents runs them again and
compares all but what differs from run to run.  The commands of a page run one after the other in a
separate folder, which is their home; the blocks that are files are written into it first.

In an output `…` on a separate line stands for lines that are left out, and stays.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from fences import ROOT, Command, Fence, Mark, fences, pages  # next to this file

LEFT_OUT = "…"
HOME = "/home/me"
_TIMEOUT_S = 600
_RECORD = "\x1e"  # between the outputs of two commands
_ALIKE = 0.75  # from here on a line is taken for the same, with other figures
# What differs from run to run: on the page as it was, and not compared.
_VARYING = (
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b"), "TIME"),
    (re.compile(r"\b\d+\.\d+\.\d+\b"), "VERSION"),
    (re.compile(r"\bafter \d+ s\b"), "after SECONDS"),
    (re.compile(r"^(\d(?:\.\d+)?|-) +\d+\*? +\w+ +(?=\S+ )", re.MULTILINE), r"\1 PID USER "),
    (re.compile(r"\((?:root|me|[a-z_][\w-]*)\)(?=: \d+ MiB leased)"), "(USER)"),
    (re.compile(r"\b\d+ (fine|skipped)\b"), r"N \1"),
    (re.compile(r"\b(loss|accuracy):? \d+\.\d+"), r"\1 NUMBER"),  # by the processor's kernels
    # By which operations TensorFlow has running at the same time.
    (re.compile(r"\bat the peak [\d.]+ \w+ were in use, \d+ %"), "at the peak SIZE"),
    (re.compile(r"\bXLA_PYTHON_CLIENT_MEM"), "XLA_CLIENT_MEM"),  # by the version of JAX
)


class Stale(NamedTuple):
    """A command whose output is another one than the page shows."""

    place: str
    command: str
    shown: tuple[str, ...]
    seen: tuple[str, ...]

    def __str__(self) -> str:
        parts = (f"{self.place}: {self.command}", "shown:", *self.shown, "seen:", *self.seen)
        return "\n".join(parts)


class FailedError(Exception):
    """A command of a page ended with another exit code than its mark says."""


# What TensorFlow says of its start is in the way.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}


@cache
def build_card() -> None:
    """Build the kernel bridge once, so that no command says that it is building it."""
    command = [sys.executable, "-m", "gpuconf.simcard", "build"]
    environ = {**os.environ, "PATH": _path(os.environ)}  # built for the TensorFlow of `python`
    subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, check=True)


def _path(environ: Mapping[str, str]) -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), environ["PATH"]])


def environment(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """For the commands of a page: nothing of the user's that steers gpuconf or a framework."""
    steering = ("GPUCONF_", "CUDA_", "TF_", "XLA_", "PYTORCH_", "KERAS_", "COLUMNS", "LINES")
    kept = {name: value for name, value in environ.items() if not name.startswith(steering)}
    cache = environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # what is built only once
    return {
        **kept,
        "PATH": _path(environ),
        "HOME": str(home),
        "CHECKOUT": str(ROOT),
        "XDG_CACHE_HOME": cache,
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GPUCONF_LEASES": str(home / ".leases"),
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",  # both outputs in their order, as on a terminal
        **{name: environ[name] for name in ("TF_NUM_INTRAOP_THREADS",) if name in environ},
    }


def run_page(
    page: Path, environ: Mapping[str, str], *, slow: bool
) -> list[tuple[Fence, list[tuple[str, ...]]]]:
    """Run a page's marked blocks; the output of each command, by block.

    Without ``slow`` those that start a framework are left out.  FailedError for a wrong exit code.
    """
    done = []
    with tempfile.TemporaryDirectory(prefix="page-") as name:
        home = Path(name).resolve()
        for fence in fences(page):
            mark = fence.mark
            if mark is not None and mark.kind == "file":
                file = home / mark.text
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("\n".join(fence.lines) + "\n", encoding="utf-8")
            if mark is not None and mark.kind == "run" and (slow or not mark.slow):
                done.append((fence, run_fence(fence, mark, home, environ)))
    return done


def run_fence(
    fence: Fence, mark: Mark, home: Path, environ: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Run a block's commands in one shell; the output of each, without this machine's paths."""
    parts, commands = [mark.before], fence.commands
    for place, command in enumerate(commands, 1):
        parts += [mark.wait] if place == len(commands) else []
        parts += [f"printf '{_RECORD}'", command.text, f"printf '{_RECORD}%s' $?"]
    parts.append("kill $(jobs -p) 2>/dev/null; wait 2>/dev/null")
    words = ["bash", "-c", "\n".join(parts)]
    if mark.card:
        if mark.slow:
            build_card()
        words = [*_card(mark), "--", *words]
    ran = subprocess.run(
        words,
        cwd=ROOT / mark.folder if mark.folder else home,
        env={**environment(home, environ), **(_QUIET if mark.slow else {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_TIMEOUT_S,
        check=False,
        encoding="utf-8",
    )
    outputs = ran.stdout.split(_RECORD)[1:]
    if len(outputs) != 2 * len(commands):
        raise FailedError(f"{fence.place}: exit code {ran.returncode}\n{ran.stdout}")
    for command, output, code in zip(commands, outputs[::2], outputs[1::2], strict=True):
        if int(re.match(r"\d+", code)[0]) not in mark.codes:
            raise FailedError(f"{fence.place}: {command.text}\nexit code {code}\n{output}")
    return [_settled(output, home) for output in outputs[::2]]


def _card(mark: Mark) -> list[str]:
    """The command that runs another one on the mark's GPU."""
    words = [sys.executable, "-m", "gpuconf.simcard", "run", "--total", mark.card]
    words += ["--used", mark.used, "--count", mark.count]
    words += ["--context", mark.context] if mark.context else []
    return words if mark.slow else [*words, "--no-bridge"]


def _settled(output: str, home: Path) -> tuple[str, ...]:
    """An output's lines, with the reader's paths in place of this machine's."""
    for path, name in ((home, HOME), (Path(sys.prefix), f"{HOME}/venv"), (ROOT, LEFT_OUT)):
        output = output.replace(str(path), name)
    lines = [line.rstrip() for line in output.rpartition("\r")[2].split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def stale(fence: Fence, outputs: Sequence[tuple[str, ...]]) -> list[Stale]:
    """The commands of a block whose output the page does not show."""
    if not fence.is_transcript:
        return []
    return [
        Stale(fence.place, command.text, command.output, seen)
        for command, seen in zip(fence.commands, outputs, strict=True)
        if not shows(command.output, seen)
    ]


def shows(shown: Sequence[str], seen: Sequence[str]) -> bool:
    """Whether an output is the one that is shown, but for what varies and how lines are broken."""
    segments: list[list[str]] = [[]]
    for word in _words(shown):
        if word == LEFT_OUT:
            segments.append([])
        else:
            segments[-1].append(word)
    words, place = [word for word in _words(seen) if word != LEFT_OUT], 0
    if len(segments) == 1:
        return words == segments[0]
    first, *middle, last = segments
    if words[: len(first)] != first:
        return False
    place = len(first)
    for segment in middle:
        while words[place : place + len(segment)] != segment:
            place += 1
            if place > len(words):
                return False
        place += len(segment)
    return not last or (len(words) - place >= len(last) and words[-len(last) :] == last)


def is_left_out(line: str) -> bool:
    """Whether lines are left out here; a remark in brackets may stand next to it."""
    return re.fullmatch(rf"\s*{LEFT_OUT}(?:\s+\(.*\))?", line) is not None


def _words(lines: Sequence[str]) -> list[str]:
    text = "\n".join(LEFT_OUT if is_left_out(line) else line for line in lines)
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return text.split()


def rewritten(page: Path, outputs: Sequence[tuple[Fence, list[tuple[str, ...]]]]) -> str:
    """The page's text with the outputs that its commands have now, where they differ."""
    lines = page.read_text(encoding="utf-8").split("\n")
    for fence, seen in reversed(outputs):
        if stale(fence, seen):
            body = [
                line
                for command, output in zip(fence.commands, seen, strict=True)
                for line in (*command.lines, *_shown_anew(command, output))
            ]
            lines[fence.first + 1 : fence.last] = body
    return "\n".join(lines)


def _shown_anew(command: Command, seen: tuple[str, ...]) -> Sequence[str]:
    """The output, with the same lines left out as the page leaves out now."""
    if not any(map(is_left_out, command.output)):
        return seen
    if shows(command.output, seen):
        return command.output
    made: list[str] = []
    place = 0
    for line in command.output:
        if is_left_out(line):
            made.append(line)
            continue
        found = next((at for at in range(place, len(seen)) if _alike(line, seen[at])), None)
        if found is None:
            continue
        if not (made and is_left_out(made[-1])):
            made.extend(seen[place:found])  # what is new between two lines that are shown
        made.append(seen[found])
        place = found + 1
    return made


def _alike(one: str, other: str) -> bool:
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= _ALIKE


def main(names: Sequence[str]) -> None:
    """Write the pages of these names again, all without a name."""
    for page in [Path(name).resolve() for name in names] or pages():
        outputs = run_page(page, os.environ, slow=True)
        text = rewritten(page, outputs)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: written again")


if __name__ == "__main__":
    main(sys.argv[1:])
