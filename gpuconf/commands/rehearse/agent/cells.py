"""Notebooks: the running cell, its result, and commands that a rehearsed cell must not run.

Works in every IPython kernel, whether gpuconf's runner or ``jupyter execute`` started it.
"""

from __future__ import annotations

import json
import os
import re
import traceback
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from gpuconf.commands.rehearse.agent import user_code
from gpuconf.commands.rehearse.agent.ending import Ending
from gpuconf.commands.rehearse.agent.files import WHY_NO_PROGRAM, Files
from gpuconf.commands.rehearse.agent.loops import LoopTransformer
from gpuconf.commands.rehearse.agent.memory import MemoryTape
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.support.keras_api.patching import wrap

MODULE = "IPython.core.interactiveshell"
_RUNNER = "cell.json"  # written by our runner before each cell
_SHELLS = ("bash", "sh", "script", "system", "sx", "!")
# Commands that would change the notebook's Python.
_INSTALLS = re.compile(
    r"^\s*(sudo\s+)?(\S+\s+-m\s+)?(\S*/)?"
    r"(pip[0-9.]*|uv\s+pip|uv|conda|mamba|micromamba|apt|apt-get)(\s+-\S+)*"
    r"\s+(install|uninstall|add|remove|update|upgrade)\b",
    re.MULTILINE,
)
_WHY = "it would change the Python that the notebook runs in"
# Read-only commands, which may run even after a shortened training.
_LOOKS = re.compile(r"\s*(ls|pwd|du|df|free|date|echo|nvidia-smi|uname|lscpu|which)\b[^|;&<>`$(]*")


class Cells:
    """The fact ``cells``, and marks on the tape; an error's ``where`` looks like ``cell 3:2``."""

    def __init__(
        self,
        record: AgentRecord,
        memory: MemoryTape,
        ending: Ending,
        files: Files | None,
        root: str,
    ) -> None:
        self._files = files
        self._record = record
        self._memory = memory
        self._ending = ending
        self._root = root
        self._names = user_code.CELLS  # by IPython's invented file name: "cell 3"
        self._now: dict[str, Any] = {}
        self._may_fail = False

    def watch(self, module: ModuleType) -> None:
        """Wrap the creation of the shell in its module."""
        wrap(module.InteractiveShell, "__init__", self._around_init)

    def _around_init(self, original: Any, shell: Any, *args: Any, **kwargs: Any) -> None:
        original(shell, *args, **kwargs)
        self._record.update(cells=[])
        self._record.facts.setdefault("not_run", [])
        self._compile = shell.compile
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)
        if self._ending.is_whole:
            shell.ast_transformers.append(LoopTransformer())
        for name in ("system", "getoutput"):
            setattr(shell, name, self._around_shell(getattr(shell, name)))
        shell.run_cell_magic = self._around_magic(shell.run_cell_magic)

    def _begin(self, info: Any) -> None:
        number, self._may_fail = self._number()
        if number is None:
            self._now = {}
            self._ending.finish("exit")
            return
        self._names[_file_of(self._compile, info.raw_cell)] = f"cell {number}"
        self._now = {"cell": number, "error": None}
        self._memory.mark(f"cell {number}")
        # If another cell runs after a failed one, the failure did not end the notebook.
        self._record.update(cells=[*self._record.facts["cells"], self._now], uncaught=None)

    def _end(self, result: Any) -> None:
        error = result.error_before_exec or result.error_in_exec
        if error is None or not self._now:
            return
        self._now["error"] = f"{type(error).__name__}: {error}".partition("\n")[0]
        self._record.update(cells=self._record.facts["cells"])
        if not self._may_fail:
            self._ending.note_uncaught(error, self._place(error))

    def _number(self) -> tuple[int | None, bool]:
        """The number of the next code cell (None after the last), and whether it may fail."""
        try:
            with open(os.path.join(self._root, _RUNNER), encoding="utf-8") as file:
                known = json.load(file)
            return known["cell"], known.get("may_fail", False)
        except OSError:  # another program runs the cells, and skips none
            return len(self._record.facts["cells"]) + 1, False

    def _place(self, error: BaseException) -> str:
        """The line of the current cell in the error's traceback."""
        name = f"cell {self._now['cell']}"
        if isinstance(error, SyntaxError) and error.lineno:
            return f"{name}:{error.lineno}"
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if self._names.get(frame.filename) == name]
        return f"{name}:{lines[0]}" if lines else name

    def _around_shell(self, original: Any) -> Any:
        def run(command: str, *args: Any, **kwargs: Any) -> Any:
            why = _WHY if _INSTALLS.search(command) else self._why_not_now(command)
            if why is not None:
                self._note(command, why)
                return [] if original.__name__ == "getoutput" else None
            with nullcontext() if self._files is None else self._files.busy():
                return original(command, *args, **kwargs)

        return run

    def _why_not_now(self, command: str) -> str | None:
        """Why a program is not started after a shortened training run."""
        if self._files is None or not self._files.is_diverting or _LOOKS.fullmatch(command):
            return None
        return WHY_NO_PROGRAM

    def _around_magic(self, original: Any) -> Any:
        def run(name: str, line: str, cell: str) -> Any:
            if name not in _SHELLS:
                return original(name, line, cell)
            for command in (each[0] for each in _INSTALLS.finditer(cell)):
                self._note(command, _WHY)
            if (why := self._why_not_now(cell)) is not None:
                self._note(f"%%{name}", why)
                return None
            return original(name, line, _INSTALLS.sub("true ", cell))

        return run

    def _note(self, command: str, why: str) -> None:
        command = command.strip()
        print(f"gpuconf rehearse: not run: {command}")
        where = f"cell {self._now['cell']}"
        self._record.append("not_run", {"where": where, "what": f"`{command}`", "why": why})


def _file_of(compiler: Any, cell: str) -> str:
    """The name under which a cell is compiled."""
    try:
        return str(compiler.get_code_name(cell, cell, 0))
    except Exception:  # another version of IPython
        return ""
