"""A notebook in place of a command: its kernel, and the command that runs its cells there."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gpuconf
from gpuconf.commands.rehearse.runs import RunResult, run_once
from gpuconf.errors import MissingDependencyError, UsageError
from gpuconf.support.children.starting import find_command
from gpuconf.support.notebook import NotebookError, kernel_of

_SUFFIX = ".ipynb"
_PYTHON = re.compile(r"python[0-9.]*")
_KERNEL_MODULE = "ipykernel_launcher"
# The notebook's own outputs arrive as messages, those of libraries through file descriptors. Cells
# that the user did not type must not enter the user's command history.
_KERNEL_OPTIONS = ("--IPKernelApp.capture_fd_output=False", "--HistoryManager.enabled=False")
# The runner uses nothing from the user's folder, and no agent: -E ignores PYTHONPATH.
_RUNNER = (
    "import sys; sys.path[0] = sys.argv[1]; "
    "from gpuconf.commands.rehearse.notebook_runner import main; sys.exit(main(*sys.argv[2:]))"
)


class Notebook(NamedTuple):
    """A notebook to rehearse: ``kernel`` is the kernel command, and ``env`` its extra variables."""

    path: str
    kernel: tuple[str, ...]
    env: Mapping[str, str] = {}

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs the notebook's cells, in gpuconf's own Python."""
        root = str(Path(gpuconf.__file__).parent.parent)
        kernel = json.dumps({"argv": self.kernel, "env": dict(self.env)})
        return (sys.executable, "-E", "-c", _RUNNER, root, self.path, kernel)

    def run(self, _: Sequence[str], *args: Any, **kwargs: Any) -> RunResult:
        """Call `run_once` with that command instead of the given words."""
        return run_once(self.command, *args, **kwargs)


def notebook_in(
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    find: Callable[[str], Any] = importlib.util.find_spec,
) -> Notebook | None:
    """The notebook that a command names, ``train.ipynb`` or ``python train.ipynb``, else None.

    Raises UsageError for a file that is not a Python notebook or names a missing kernel, and
    MissingDependencyError without nbclient.
    """
    if not words[-1].endswith(_SUFFIX) or not _is_python(words[:-1]):
        if words[0].endswith(_SUFFIX):
            hint = f"gpuconf rehearse -- {shlex.quote(words[0])}"
            raise UsageError(f"{words[0]}: a notebook accepts no arguments", hint=hint)
        return None
    path = words[-1]
    name = _kernel_name(path)
    if find("nbclient") is None:
        raise MissingDependencyError(
            "nbclient, which runs a notebook's cells, is not installed",
            hint="pip install 'gpuconf[notebook]'",
        )
    if len(words) > 1:
        python = find_command(words[0], environ)
        argv = [python, *words[1:-1], "-m", _KERNEL_MODULE, "-f", "{connection_file}"]
        found = Notebook(path, tuple(argv))
    else:
        found = _installed_kernel(path, name)
    if _KERNEL_MODULE not in found.kernel:  # another program starts it; left unchanged
        return found
    return found._replace(kernel=(*found.kernel, *_KERNEL_OPTIONS))


def _is_python(words: Sequence[str]) -> bool:
    """Whether these words start a Python interpreter directly."""
    if not words:
        return True
    options = [word for before, word in pairwise(words) if before not in ("-X", "-W")]
    is_plain = all(word.startswith("-") and word not in ("-c", "-m") for word in options)
    return is_plain and _PYTHON.fullmatch(os.path.basename(words[0])) is not None


def _kernel_name(path: str) -> str:
    """The kernel that a notebook requests."""
    try:
        return kernel_of(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=f"ls -l {shlex.quote(path)}") from None
    except NotebookError as error:
        raise UsageError(f"{path}: {error}", hint="open it in Jupyter, and save it again") from None


def _installed_kernel(path: str, name: str) -> Notebook:
    """The notebook in the kernel with that name, by Jupyter's own rules."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec(name)
    except NoSuchKernel:
        raise UsageError(
            f"{path} requests the kernel {name!r}, but Jupyter cannot find it here",
            hint="jupyter kernelspec list; or name a Python that has ipykernel: gpuconf rehearse "
            f"… -- /path/to/python {shlex.quote(path)}",
        ) from None
    argv = list(spec.argv)
    if _PYTHON.fullmatch(argv[0]):  # as in Jupyter: its own Python
        argv[0] = sys.executable
    return Notebook(path, tuple(argv), dict(spec.env))
