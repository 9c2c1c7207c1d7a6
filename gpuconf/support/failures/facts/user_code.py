"""The line of user code in a Python, IPython or notebook traceback."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuconf.basics.json_shape import Count, FromOne
from gpuconf.support.failures.log.watchers import LogLine

_FILE_LINE = re.compile(r'File "([^"]{1,400})", line (\d{1,9})(?:, in (\S{1,120}))?')
# IPython: "train.py:12, in main()", "<ipython-input-3-ab12> in <module>", "Cell In[3], line 12".
_CELL = re.compile(
    r"((?:Input |Cell )?In ?\[\d{1,9}\])[,:]? (?:line |in )?"
    r"(?:<(?:cell line|module)\D{0,200})?(\d{1,9})?"
)
_OLD_CELL = re.compile(
    r"(<ipython-input-\d{1,9}-\w{1,40}>|/tmp/ipykernel_\d{1,9}/\d{1,19}\.py) in ([^\s(]{1,80})"
)
_IPYTHON_FILE = re.compile(r"^(?:File )?(\S{1,300}\.py)(?::(\d{1,9}))?,? in ([^\s(]{1,80})\(")
_ARROW = re.compile(r"^-{1,5}> ?(\d{1,6})\s+(\S.{0,300})")
# Folders of installed packages, wherever they are; a path with one of these is not user code.
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python\d|<frozen|<string>|[/\\]Lib[/\\](?!site)"
    r"|[/\\]tensorflow[/\\]python[/\\]|[/\\](?:tf_)?keras[/\\]src[/\\]|[/\\]jax[/\\]_src[/\\]"
    r"|[/\\]runpy\.py|[/\\]importlib[/\\]|__autograph_generated_file|<__array_function__|<decorator"
    r"|[/\\]gpuconf[/\\](?:__init__|__main__|auto|backends|basics|batching|callbacks|commands|errors"
    r"|images|injected|ipython|isolation|machine|planner|profile|ray|session|simcard|support|version)\b"
    r"|[/\\]pydevd?|[/\\]spyder|[/\\]ipykernel[/\\]",
    re.IGNORECASE,
)


class Frame(NamedTuple):
    """A line of code in a traceback, and its line number in the log (``number``)."""

    number: FromOne
    """The line number in the log, from 1."""
    file: str
    """The file, or the notebook cell."""
    line: Count | None
    """The line number in that file, from 1."""
    function: str | None
    """The function that contains it."""
    code: str | None = None
    """The line's text."""


class FrameReader:
    """Watches a log for traceback frames outside libraries."""

    parts: Sequence[str] = ()
    phrases: Sequence[str] = (
        "line in", "cell in", "input in", "py in", "ipython input", "ipykernel",
    )  # fmt: skip

    def __init__(self) -> None:
        self.wants = 0
        self._frames: deque[Frame] = deque(maxlen=4000)
        self._open = False
        self._is_python = False  # Python prints the code in the next line, IPython behind an arrow

    def see(self, line: LogLine) -> None:
        """Note a frame of user code."""
        frame = _frame(line)
        if frame is None:
            return
        self._open = not _LIBRARY.search(frame.file)
        if self._open:
            self._frames.append(frame)
            self._is_python = _FILE_LINE.search(line.text) is not None
            self.wants = 12

    def follow(self, line: LogLine) -> None:
        """Take the code of the last frame from the lines below it."""
        self.wants -= 1
        if not (self._open and self._frames) or line.number == self._frames[-1].number:
            return
        last, arrow = self._frames[-1], _ARROW.match(line.text)
        if arrow is not None:
            self._close(last._replace(line=int(arrow[1]), code=arrow[2].strip()))
        elif _frame(line) is not None:
            self._open, self.wants = False, 0
        elif self._is_python and line.number == last.number + 1:
            code = line.text.strip()
            if code and not code.startswith("^"):
                self._close(last._replace(code=code[:300]))

    def _close(self, frame: Frame) -> None:
        self._frames[-1] = frame
        self._open, self.wants = False, 0

    def codes(self) -> list[str]:
        """The code lines of the user's frames, innermost last."""
        return [frame.code for frame in self._frames if frame.code]

    def user_frame(self, failed_at: Iterable[int]) -> Frame | None:
        """The innermost line of user code in the traceback nearest to one of these lines.

        A traceback comes before its exception; TensorFlow's C++ code logs its line before the
        traceback.
        """
        frames = [frame for frame in self._frames if frame.line is not None]
        for number in failed_at:
            above = [frame for frame in frames if number - 400 < frame.number < number]
            if above:
                return _with_code(above)
        return _with_code(frames) if frames else None


def _with_code(frames: list[Frame]) -> Frame:
    """The last frame with code: TensorFlow's traceback for a graph has none."""
    return next((frame for frame in reversed(frames) if frame.code), frames[-1])


def _frame(line: LogLine) -> Frame | None:
    text = line.text[:1000]
    found = _FILE_LINE.search(text)
    if found is not None:
        return Frame(line.number, found[1], int(found[2]), found[3])
    found = _OLD_CELL.search(text)
    if found is not None:
        return Frame(line.number, found[1], None, found[2])
    found = _CELL.search(text)
    if found is not None:
        return Frame(line.number, found[1], int(found[2]) if found[2] else None, None)
    found = _IPYTHON_FILE.search(text)
    if found is not None:
        return Frame(line.number, found[1], int(found[2]) if found[2] else None, found[3])
    return None
