"""The last failure of the notebook, kept as a diagnosis: an exception would pin its tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gpuconf.basics.terminal import debug
from gpuconf.commands.explain.uncaught import diagnosis_of
from gpuconf.errors import UsageError
from gpuconf.ipython.drawing import of_diagnosis
from gpuconf.ipython.showing import NotebookOutput, is_notebook

if TYPE_CHECKING:  # imported when a cell fails
    from gpuconf.commands.explain import Diagnosis


class Failures:
    """The failures of one shell's cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._last: Diagnosis | None = None

    def after_cell(self, result: Any) -> None:
        """Show a diagnosis below the traceback if a cell ran out of GPU memory.

        Never raises: IPython would show that instead of the user's own error.
        """
        error = getattr(result, "error_in_exec", None)
        if not isinstance(error, BaseException):
            return
        try:
            found = self._diagnosis(error)
            self._last = found or self._last
            if found is not None and found.severity == "failure":
                self._show_below(found)
        except (Exception, KeyboardInterrupt) as trouble:
            debug(f"the exception could not be explained: {trouble!r}")

    def last(self) -> Diagnosis:
        """The last failure's diagnosis, even if the cell ran before the extension was loaded."""
        found = self._last
        if found is None:
            error = getattr(sys, "last_value", None)
            found = self._diagnosis(error) if isinstance(error, BaseException) else None
        if found is None:
            raise UsageError(
                "no cell of this notebook has failed so far, apart from gpuconf's own errors",
                hint="%gpuconf explain train.log",
            )
        return found

    def _diagnosis(self, error: BaseException) -> Diagnosis | None:
        """The diagnosis; user code is named as in IPython, ``Cell In[3]``, without a file."""
        found = diagnosis_of(error)
        code = None if found is None else found.facts.user_code
        name_of = getattr(self._shell.compile, "format_code_name", None)  # IPython 8 and newer
        cell = name_of(code.file) if code is not None and name_of is not None else None
        if found is None or code is None or cell is None:
            return found
        code = code._replace(file=" ".join(cell))
        return found._replace(facts=found.facts._replace(user_code=code))

    def _show_below(self, found: Diagnosis) -> None:
        shown = of_diagnosis(found, source=None)
        if is_notebook(self._shell):
            NotebookOutput(self._shell).show(shown)
        else:
            print(f"\ngpuconf: {shown.text}", file=sys.stderr, flush=True)
