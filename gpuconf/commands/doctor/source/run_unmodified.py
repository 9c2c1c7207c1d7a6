"""A script that cannot or should not be edited: start it with `gpuconf run`."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import PurePath

from gpuconf.basics.processes import own_user
from gpuconf.commands.doctor.finding import Finding

OLD_STACK = "it is written for TensorFlow 1"
PYTHON_2 = "it is written for Python 2"
_INSTALLED = ("site-packages", "dist-packages")
# CPython's error messages for Python 2 scripts.
_OF_PYTHON_2 = re.compile(
    r"Missing parentheses in call to '(?:print|exec)'|multiple exception types must be|"
    r"leading zeros in decimal integer literals"
)
_KERNEL = (
    *("gpuconf", "run", "--profile", "notebook", "--"),
    *("python", "-m", "ipykernel_launcher", "-f", "{connection_file}"),
)


def is_of_python_2(error: SyntaxError) -> bool:
    """Whether Python 3 fails because this is Python 2 code."""
    return _OF_PYTHON_2.search(error.msg or "") is not None


def start_of(filename: str) -> str:
    """The command that applies a profile to the unchanged script; for a notebook, a kernel line."""
    if filename.endswith(".ipynb"):
        return (
            "# in kernel.json of the notebook's kernel (`jupyter kernelspec list` shows where),\n"
            "# with the full paths of gpuconf and of that kernel's own python:\n"
            f'"argv": {json.dumps(_KERNEL)},'
        )
    return f"gpuconf run -- python {shlex.quote(filename)}"


def in_one_line(filename: str) -> str:
    """The command from `start_of` without line breaks, for a comment."""
    return " ".join(line.removeprefix("# ") for line in start_of(filename).splitlines())


def why_not_edited(path: str) -> str | None:
    """Why the user should not edit the script at ``path``; None if they may."""
    installed = next((part for part in PurePath(os.path.realpath(path)).parts
                      if part in _INSTALLED), None)  # fmt: skip
    try:
        owner = os.stat(path).st_uid
    except OSError:
        return None
    return reason(installed, owner=owner, user=own_user(), is_writable=os.access(path, os.W_OK))


def reason(installed: str | None, *, owner: int, user: int, is_writable: bool) -> str | None:
    """Why the user should not edit a script: installed, read-only, or owned by someone else.

    ``installed`` is the folder of installed packages that contains it, or None.
    """
    if installed is not None:
        return f"it is installed (in {installed})"
    if not is_writable:
        return "you have no permission to write to it"
    if user not in (0, owner):
        return f"it belongs to another user (uid {owner})"
    return None


def unedited(filename: str, why: str) -> Finding:
    """``source.unedited``: the unchanged script under a profile, because of ``why``."""
    return Finding(
        "source.unedited",
        "ok",
        f"{filename}: {why}; `gpuconf run` applies a profile to it unchanged",
        (
            "gpuconf need not be installed next to it: Python 2.7 and TensorFlow 1.4 "
            "or newer are enough",
        ),
        start_of(filename),
    )
