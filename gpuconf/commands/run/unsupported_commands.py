"""Commands that the plan of a run cannot reach, refused with a hint on what to start instead.

The plan travels in the environment (``PYTHONPATH``, ``GPUCONF_RUN``, ``CUDA_VISIBLE_DEVICES``) and
the lease in an open file. They are lost if a command starts with a different environment, as a
different user, in a container or on another machine, or if Python ignores the environment. Only the
first word and its options are checked. Programs further down that lose the plan are reported
afterwards, by :mod:`gpuconf.commands.run.watcher`.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence

from gpuconf.basics.environment import RUN_VARIABLE
from gpuconf.errors import UsageError
from gpuconf.support.children.starting import find_command

_USER = "it runs the command in a new environment, and closes the lease file"
_CONTAINER = "a container has its own environment and files"
_MACHINE = "the command runs on another machine, whose GPUs are not in this plan"

# What starts a command where the plan is lost, and why it is lost there.
_ELSEWHERE = {
    **dict.fromkeys(("sudo", "doas", "pkexec", "su", "runuser"), _USER),
    **dict.fromkeys(("docker", "docker-compose", "podman", "podman-compose"), _CONTAINER),
    **dict.fromkeys(("nerdctl", "apptainer", "singularity", "kubectl", "oc"), _CONTAINER),
    **dict.fromkeys(("ssh", "mosh"), _MACHINE),
    "sbatch": "sbatch exits immediately, and Slurm runs the job elsewhere",
    "systemd-run": "the service manager starts the command, in its own environment",
    "tmux": "tmux has its server start the command, in the server's environment",
    "pipx": "pipx removes PYTHONPATH, which carries the plan",
}

# Variables that the plan sets, and that a command must not set again or remove.
_CARRIERS = ("PYTHONPATH", RUN_VARIABLE, "CUDA_VISIBLE_DEVICES")
_PYTHON = re.compile(r"(python|pypy)[\d.]*[a-z]*(-dbg)?$")
# A word of Python's options with a letter that locks out the plan before one that takes a value.
_LOCKED_OUT = re.compile(r"-[^-cmWXQIES]*([IES])")
_WHY_NOT_PYTHON = {
    "I": "-I makes Python ignore PYTHONPATH, which carries the plan",
    "E": "-E makes Python ignore PYTHONPATH, which carries the plan",
    "S": "-S keeps Python from loading sitecustomize, which applies the plan",
}


def refuse_unreachable(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise UsageError if the plan of a run cannot reach the command ``words``.

    The exit code is 127 for a command that is not found, and 126 for one that cannot be executed.
    """
    find_command(words[0], environ)
    name = os.path.basename(words[0])
    if name in _ELSEWHERE and not (name == "systemd-run" and "--scope" in words):
        hint = f"start gpuconf there: {name} … gpuconf run -- python train.py"
        if name == "pipx":  # it starts no other program
            hint = "pipx install PACKAGE; gpuconf run -- PROGRAM"
        raise _unreached(words[0], _ELSEWHERE[name], hint)
    if name == "env":
        _refuse_env(words)
    elif _PYTHON.match(name):
        _refuse_python(words)


def _refuse_env(words: Sequence[str]) -> None:
    """Refuse ``env`` if it empties the environment, or sets or removes what carries the plan."""
    before = list(itertools.takewhile(lambda word: word.startswith("-") or "=" in word, words[1:]))
    if "-" in before or "-i" in before or "--ignore-environment" in before:
        raise _unreached(
            f"{words[0]} -i",
            "it empties the environment, which carries the plan",
            'put it before gpuconf: env -i PATH="$PATH" gpuconf run -- COMMAND',
        )
    removed = {value for option, value in itertools.pairwise(words) if option in ("-u", "--unset")}
    for name in _CARRIERS:
        if name in removed or any(word.startswith(f"{name}=") for word in before):
            raise _unreached(
                f"{words[0]}, which changes {name}",
                f"gpuconf run sets {name}, which carries the plan",
                "change it before gpuconf: env NAME=VALUE gpuconf run -- COMMAND",
            )


def _refuse_python(words: Sequence[str]) -> None:
    """Refuse Python with an option that makes it ignore what carries the plan."""
    for word in itertools.takewhile(lambda word: word.startswith("-"), words[1:]):
        found = _LOCKED_OUT.match(word)
        if found is not None:
            raise _unreached(
                f"{words[0]} -{found[1]}",
                _WHY_NOT_PYTHON[found[1]],
                "leave it out, or put `import gpuconf.auto` first in the script, and start it "
                "without gpuconf run",
            )
        if re.match(r"-[^-]*[cm]|--?$", word):  # the rest is the program's
            return


def _unreached(what: str, why: str, hint: str) -> UsageError:
    return UsageError(f"the plan would not reach the command through {what}: {why}", hint=hint)
