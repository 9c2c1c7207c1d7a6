"""Output of the magic: HTML in a notebook, the command's own text in a terminal."""

from __future__ import annotations

from typing import Any

from gpuconf.basics.terminal import printable
from gpuconf.commands.cli.output import Output
from gpuconf.ipython.drawing import Drawing


class NotebookOutput(Output):
    """A command's output in a cell: progress is one line, which the answer replaces."""

    def __init__(self, shell: Any, *, as_json: bool = False) -> None:
        super().__init__(as_json=as_json)
        self.use_color("never" if is_notebook(shell) else "auto")
        self._is_notebook = is_notebook(shell)
        self._handle: Any = None

    def progress(self, text: str) -> None:
        """Show what a long command is doing now."""
        if self._is_notebook:
            self._put({"text/plain": f"… {text}"})
        else:
            super().progress(text)

    def progress_for_people(self, text: str) -> None:
        """Show progress here too, since a user is waiting for the cell."""
        self.progress(text)

    def note(self, text: str) -> None:
        """Print a note on stdout, since notebooks make stderr look alarming."""
        if self._is_notebook:
            self.line(text)
        else:
            super().note(text)

    def show(self, answer: Drawing) -> None:
        """Show the answer in place of the progress."""
        if self._is_notebook:
            text = printable(answer.text, keep="\n\t")  # names in it may contain escape sequences
            self._put({"text/html": answer.html, "text/plain": text})
        else:
            self.line(answer.text)

    def show_markdown(self, text: str) -> None:
        """Show a page."""
        self._put({"text/markdown": text, "text/plain": text})

    def _put(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)


def is_notebook(shell: Any) -> bool:
    """Whether HTML is shown; IPython in a terminal shows only text."""
    formatter = getattr(shell, "display_formatter", None)
    return "text/html" in getattr(formatter, "active_types", ())
