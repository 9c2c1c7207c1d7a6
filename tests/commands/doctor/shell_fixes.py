"""What a shell makes of a fix: whether it reads it and knows its commands, what it changes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

# What a person with a GPU has, or is told to get; `source.*` rewrites Python and is not checked.
_COMMANDS = frozenset(
    yaml.safe_load(Path(__file__).with_name("shell_commands.yaml").read_text(encoding="utf-8"))
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_JOINTS = {";", "&&", "||", "|"}


def can_be_pasted(fix: str) -> bool:
    """Whether bash takes it, runs nothing inside it unasked, and knows its commands."""
    done = subprocess.run(["bash", "-n", "-c", fix], check=False, stderr=subprocess.DEVNULL)
    if done.returncode or "`" in fix:
        return False
    first_words = list(_first_words(fix))
    return bool(first_words) and set(first_words) <= _COMMANDS


def environment_after(fix: str, environ: Mapping[str, str]) -> dict[str, str] | None:
    """The variables after bash has run ``fix``; None if it also runs programs."""
    if not set(_first_words(fix)) <= {"export", "unset"}:
        return None
    bash = ["bash", "-c", f"set -e; unset _ PWD SHLVL; {fix}\nprintenv -0 || true"]
    path = {"PATH": os.defpath}
    done = subprocess.run(bash, check=True, capture_output=True, text=True, env={**environ, **path})
    found = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    return {name: value for name, value in found.items() if name not in ("PATH", "_")}


def _first_words(fix: str) -> Iterator[str]:
    """The programs that it starts, sudo and variables before them left out."""
    lexer = shlex.shlex(fix, posix=True, punctuation_chars=";&|>")
    lexer.whitespace_split = True
    is_first = True
    for word in lexer:
        if word in _JOINTS:
            is_first = True
        elif is_first and word != "sudo" and not _ASSIGNMENT.match(word):
            name = word.rpartition("/")[2]
            yield "python" if name.startswith("python") else name
            is_first = False
