"""Run a notebook's cells in its kernel, like `Run all`, as a separate program.

The rehearsal starts this program in place of a script. Outputs are printed as they arrive. The exit
code is like a script's: 0, 1 if a cell failed, or the kernel's own if the kernel failed. The file
is only read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import resource
import signal
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from gpuconf.injected import with_site

CELL = "cell.json"  # in the rehearsal's folder: which cell runs, for the agent
_FOLDER = "GPUCONF_REHEARSAL"
_LONGEST_SOCKET = 90  # of 107 characters; zmq appends a number
_STARTUP_S = 300
_WAIT_S = 120  # the agent writes the memory trace at the end
_AGAIN_S = 0.1  # after an error, a kernel rejects requests for a moment
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


class CellRunner(NotebookClient):  # type: ignore[misc]  # of an extra, which may not be there
    """nbclient's own loop, which also prints outputs and writes the cell's number to a file."""

    def cell_starts(self, cell: Any, cell_index: int) -> None:
        """Print a heading, and record which cell runs; code cells are counted from 1."""
        cells = self.nb.cells[: cell_index + 1]
        number = sum(each.cell_type == "code" for each in cells)
        may_fail = "raises-exception" in cell.metadata.get("tags", [])
        _announce(cell=number, may_fail=may_fail)
        _write(sys.stdout, f"[cell {number}]\n")

    def output(self, outs: Any, msg: Any, *_: Any) -> None:  # noqa: ARG002
        """Print an output without keeping it."""
        kind, content = msg["msg_type"], msg["content"]
        if kind == "stream":
            _write(sys.stderr if content["name"] == "stderr" else sys.stdout, content["text"])
        elif kind == "error":
            _write(sys.stderr, "\n".join(content["traceback"]) + "\n")
        elif "text/plain" in content.get("data", {}):
            _write(sys.stdout, content["data"]["text/plain"] + "\n")

    async def run_all(self) -> None:
        """Run the cells, and stop the kernel when its agent has written everything.

        The kernel is not shut down normally, because its output threads could deadlock.
        """
        self.shutdown_kernel = "immediate"
        try:
            await self.async_execute(cleanup_kc=False)
        finally:
            if await self.km.is_alive():
                with suppress(asyncio.TimeoutError, DeadKernelError):
                    await asyncio.wait_for(self._finish(), _WAIT_S)
                await self._async_cleanup_kernel()

    async def _finish(self) -> None:
        _announce(cell=None)
        while True:
            message = self.kc.execute("None", store_history=False)
            reply = await self.async_wait_for_reply(message)
            if reply is None or reply["content"]["status"] != "aborted":
                return
            await asyncio.sleep(_AGAIN_S)


class _OneKernel(KernelSpecManager):  # type: ignore[misc]
    """Offers only the kernel that was chosen."""

    def __init__(self, spec: KernelSpec) -> None:
        super().__init__()
        self._spec = spec

    def get_kernel_spec(self, kernel_name: str) -> Any:  # noqa: ARG002
        """Return that kernel for any name."""
        return self._spec


def main(path: str, kernel: str) -> int:
    """Run the notebook at ``path`` in a kernel, given as JSON with its ``argv`` and ``env``."""
    warnings.filterwarnings("ignore", module="nbformat")  # cells without ids, and others
    logging.disable(logging.CRITICAL)  # nbclient also raises what it logs
    notebook = nbformat.read(path, as_version=4)
    manager = _manager(json.loads(kernel))
    runner = CellRunner(
        notebook,
        km=manager,
        startup_timeout=_STARTUP_S,
        iopub_timeout=_STARTUP_S,
        resources={"metadata": {"path": str(Path(path).resolve().parent)}},
    )
    runner.on_cell_execute = runner.cell_starts
    try:
        asyncio.run(runner.run_all())
    except CellExecutionError:  # already printed
        return 1
    except (DeadKernelError, RuntimeError) as error:
        return _end_as(manager, error)
    return 0


def _manager(kernel: dict[str, Any]) -> AsyncKernelManager:
    environ = dict(kernel["env"])
    if "PYTHONPATH" in environ:  # it would hide the agent's entry point
        environ["PYTHONPATH"] = with_site(environ["PYTHONPATH"])
    spec = KernelSpec(argv=kernel["argv"], env=environ, display_name="kernel", language="python")
    manager = AsyncKernelManager(kernel_spec_manager=_OneKernel(spec))
    file = Path(os.environ[_FOLDER], "kernel.json")
    if len(str(file)) < _LONGEST_SOCKET:  # sockets in the folder; others might take ports
        manager.transport = "ipc"
        manager.connection_file = str(file)
    return manager


def _announce(**facts: Any) -> None:
    """Tell the agent, through a file, which cell is next; None for the end."""
    Path(os.environ[_FOLDER], CELL).write_text(json.dumps(facts), encoding="utf-8")


def _end_as(manager: AsyncKernelManager, error: Exception) -> int:
    """End with the kernel's signal, which shows the cause, or return an exit code."""
    process = getattr(manager.provisioner, "process", None)
    code = None if process is None else int(process.poll() or 0)
    if code is None or code >= 0:
        _write(sys.stderr, f"{type(error).__name__}: {error}\n")
        return code or 1
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
    return 128 - code


def _write(stream: Any, text: str) -> None:
    stream.write(text if stream.isatty() else _COLORS.sub("", text))
    stream.flush()
