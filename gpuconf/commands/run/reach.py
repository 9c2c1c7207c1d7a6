"""Check whether the plan can reach a command; refuse one that would certainly lose it.

The plan travels in the environment (``PYTHONPATH``, ``GPUCONF_RUN``, ``CUDA_VISIBLE_DEVICES``) and
the lease in an open file.  They are lost if a command starts with another environment, as another
user, in a container or on another machine, or if Python ignores the environment.  The commands
inside a shell script, the children of a setuid or statically linked program, and the destination of
``srun`` cannot be checked here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from gpuconf.basics.environment import RUN_VARIABLE
from gpuconf.commands.run.elsewhere import goes_elsewhere
from gpuconf.commands.run.wrappers import command_behind, read_options
from gpuconf.errors import UsageError
from gpuconf.support.children.starting import (
    COMMAND_NOT_FOUND,
    COMMAND_NOT_RUNNABLE,
    cannot_start,
    find_command,
    is_assignment,
)

# Variables that the plan sets, and that a command must not set again or remove.
CARRIERS = ("PYTHONPATH", RUN_VARIABLE, "CUDA_VISIBLE_DEVICES")
_RUN = ("gpuconf", "run", "--")
_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]*(-dbg)?$")
_WORDS_OF_A_SHELL = {
    *("cd", "source", ".", "export", "unset", "exec", "eval", "alias", "ulimit", "set"),
    *("if", "for", "while", "{", "(", "[[", "!"),
}
_SHEBANG_BYTES = 256  # of the first line, as in the kernel
_SHEBANG_LEVELS = 4
_WHY_NOT_PYTHON = {
    "I": "-I makes Python ignore PYTHONPATH, which carries the plan",
    "E": "-E makes Python ignore PYTHONPATH, which carries the plan",
    "S": "-S keeps Python from loading sitecustomize, which applies the plan",
}


def refuse_unreachable(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise UsageError if the plan of a run cannot reach the command ``words``.

    The exit code is 127 for a command that is not found, 126 for one that cannot be executed.
    """
    file = _found(words, environ)
    _look([], words, file, environ, _SHEBANG_LEVELS)


def _found(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the command's file; give a better hint for words with a meaning in the shell."""
    first = words[0]
    if is_assignment(first):
        hint = f"set it before gpuconf: {_line(_leading(words))}"
        raise cannot_start(first, "it is a variable, not a command", hint=hint)
    try:
        return find_command(first, environ)
    except UsageError as error:
        if error.exit_code != COMMAND_NOT_FOUND:
            raise
        if first == "time":
            hint = f"time {_line([*_RUN, *words[1:]])}"
        elif first in _WORDS_OF_A_SHELL:
            hint = f"{_line(_RUN)} bash -c {shlex.quote(' '.join(words))}"
        elif " " in first:
            hint = f"without the quotes: {_line(_RUN)} {' '.join(words)}"
        else:
            raise
        raise cannot_start(first, "it was not found", COMMAND_NOT_FOUND, hint=hint) from None


def _leading(words: Sequence[str]) -> list[str]:
    """The same command with its assignments moved before ``gpuconf run``."""
    count = next((i for i, word in enumerate(words) if not is_assignment(word)), len(words))
    return [*words[:count], *_RUN, *words[count:]]


def _look(
    before: Sequence[str],
    words: Sequence[str],
    file: str | None,
    environ: Mapping[str, str],
    levels: int,
) -> None:
    """Check ``words``, which ``before`` starts; ``file`` is the program, if it was found."""
    name = os.path.basename(words[0])
    elsewhere = goes_elsewhere(words, environ)
    if elsewhere is not None:
        raise _unreached(words[0], *elsewhere)
    if name == "env":
        _look_behind_env(before, words, environ, levels)
    elif _PYTHON.match(name):
        _refuse_python(before, words)
    elif (behind := command_behind(words)) is not None:
        _look_behind([*before, *words[: -len(behind)]], behind, environ, levels)
    elif file is not None and levels:
        _look_into(before, words, file, environ, levels - 1)


def _look_behind(
    before: Sequence[str], behind: Sequence[str], environ: Mapping[str, str], levels: int
) -> None:
    try:
        file = find_command(behind[0], environ)
    except UsageError:
        file = None  # the wrapper will report it
    _look(before, behind, file, environ, levels)


def _look_into(
    before: Sequence[str], words: Sequence[str], file: str, environ: Mapping[str, str], levels: int
) -> None:
    """Follow the first line of a script, which names the interpreter."""
    interpreter = _shebang(file)
    if interpreter is None:
        return
    if not os.path.exists(interpreter[0]):
        windows = interpreter[-1].endswith("\r")
        raise cannot_start(
            words[0],
            f"its first line names {interpreter[0]!r}, which was not found",
            COMMAND_NOT_RUNNABLE,
            hint=f"sed -i 's/\\r$//' {shlex.quote(file)}" if windows
            else f"name the program: gpuconf run -- python {shlex.join([file, *words[1:]])}",
        )  # fmt: skip
    _look(before, [*interpreter, file, *words[1:]], interpreter[0], environ, levels)


def _shebang(file: str) -> list[str] | None:
    """The interpreter in a script's first line and its one argument, None for other files."""
    try:
        with open(file, "rb") as stream:
            first = stream.read(_SHEBANG_BYTES).split(b"\n")[0]
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    text = os.fsdecode(first[2:]).strip(" \t")
    return re.split("[ \t]+", text, maxsplit=1) if text else None


def _refuse_python(before: Sequence[str], words: Sequence[str]) -> None:
    options = read_options(words[1:], "WXQ", ("check-hash-based-pycs",), last="cm")
    letter = next((name for name, _ in options.given if name in _WHY_NOT_PYTHON), None)
    if letter is not None:
        kept = [_without_flags(word) for word in words[1 : len(words) - len(options.rest)]]
        command = [*before, words[0], *filter(None, kept), *options.rest]
        raise _unreached(
            f"python -{letter}",
            _WHY_NOT_PYTHON[letter],
            f"leave it out: {_line([*_RUN, *command])}; "
            "or put `import gpuconf.auto` first in the script, and start it without gpuconf run",
        )


def _without_flags(word: str) -> str:
    """Remove the flags that lock out the plan from a word of Python's options."""
    if not word.startswith("-") or word.startswith("--"):
        return word
    kept = re.match(r"-[^cmWXQ]*", word)
    assert kept is not None
    head = re.sub("[IES]", "", kept.group())
    return "" if head == "-" and kept.end() == len(word) else head + word[kept.end() :]


def _look_behind_env(
    before: Sequence[str], words: Sequence[str], environ: Mapping[str, str], levels: int
) -> None:
    """Check ``env``, which may empty the environment or override the plan's variables."""
    options = read_options(words[1:], "uCSPa", ("unset", "chdir", "split-string", "argv0"))
    split = [value for name, value in options.given if name in ("S", "split-string")]
    if split:
        inner = [*_split(" ".join(split)), *options.rest]
        _look_behind_env(before, [words[0], *inner], environ, levels)
        return
    rest = list(options.rest)
    if rest[:1] == ["-"] or any(name == "i" or _abbreviates(name) for name, _ in options.given):
        command = rest[1:] if rest[:1] == ["-"] else rest
        raise _unreached(
            f"{words[0]} -i",
            "it empties the environment, which carries the plan",
            f'put it before gpuconf: {words[0]} -i PATH="$PATH" {_line(_leading(command))}',
        )
    while rest and "=" in rest[0]:
        rest.pop(0)
    front = words[: len(words) - len(rest)]
    assigned = dict(word.split("=", 1) for word in options.rest[: len(options.rest) - len(rest)])
    gone = {value for name, value in options.given if name in ("u", "unset")}
    lost = next((name for name in CARRIERS if name in {*gone, *assigned}), None)
    if lost is not None:
        raise _unreached(
            f"{words[0]} {lost}=" if lost in assigned else f"{words[0]} -u {lost}",
            f"gpuconf run sets {lost}, which carries the plan",
            f"change it before gpuconf: {_line([*before, *front, *_RUN, *rest])}",
        )
    if rest:
        _look_behind([*before, *front], rest, {**environ, **assigned}, levels)


def _abbreviates(name: str) -> bool:
    """Whether ``name`` is --ignore-environment, which getopt lets users abbreviate."""
    return len(name) >= len("ignore-e") and "ignore-environment".startswith(name)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _unreached(what: str, why: str, hint: str) -> UsageError:
    return UsageError(f"the plan would not reach the command through {what}: {why}", hint=hint)


def _line(words: Sequence[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Quote the word for a shell; the name of an assignment stays unquoted."""
    if not is_assignment(word):
        return shlex.quote(word)
    name, value = word.split("=", 1)
    return f"{name}={shlex.quote(value) if value else ''}"
