"""Whether a fix can be pasted: a shell reads it, and each command in it is one that exists."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator

# What a person with a GPU has, or is told to get; `source.*` rewrites Python and is not checked.
_COMMANDS = frozenset(
    {"apt", "bash", "cd", "chmod", "df", "dmesg", "dnf", "docker", "export", "free", "fuser"}
    | {"gpuconf", "grep", "head", "kill", "kubectl", "ldconfig", "ls", "mkdir", "mknod", "modprobe"}
    | {"mount", "nvidia-cuda-mps-control", "nvidia-smi", "pacman", "pip", "podman", "printf", "ps"}
    | {"python", "reboot", "rm", "rmmod", "systemctl", "tail", "ubuntu-drivers", "ulimit", "unset"}
    | {"usermod", "wsl.exe"}
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
