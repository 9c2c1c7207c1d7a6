"""What the user's own code raised, shown with its own lines and none of ours or a framework's."""

from __future__ import annotations

import shlex
import sysconfig
import traceback
from pathlib import Path

from gpuconf.errors import GpuconfError
from gpuconf.footprint.targets.user_modules import ModelOrigin

_PACKAGE = Path(__file__).resolve().parents[2]
_LIBRARIES = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_NOT_THE_USERS = tuple(f"{folder}/" for folder in (_PACKAGE, *_LIBRARIES))
_TRAINING = (".fit(", ".train_on_batch(", ".fit_generator(", ".evaluate(")
_BELOW_MAIN = 'put what a program does below: if __name__ == "__main__":'
_MOST_FRAMES = 8
_LONGEST_MESSAGE = 1500


def error_in_user_code(target: str, error: BaseException, place: ModelOrigin) -> GpuconfError:
    """An error with the traceback's lines in the user's files; exit code 1, not a bug of ours."""
    lines = _lines(user_frames(error), place.folder)
    if trains_in(error):
        return GpuconfError(
            f"{target} trains, and an estimate runs nothing on data:\n{lines.rstrip()}",
            hint=_BELOW_MAIN,
        )
    if isinstance(error, SystemExit):
        return GpuconfError(f"{target} ends the process:\n{lines.rstrip()}", hint=_BELOW_MAIN)
    last = "".join(traceback.format_exception_only(type(error), error)).rstrip()
    if len(last) > _LONGEST_MESSAGE:
        last = f"{last[:_LONGEST_MESSAGE]} …"
    return GpuconfError(
        f"{target} failed, in code that is not gpuconf's:\n{lines}{last}",
        hint=f"the whole of it: {_reproduction(place)}",
    )


def _reproduction(place: ModelOrigin) -> str:
    """A command that shows the whole traceback."""
    if place.file is not None:
        code = f"import runpy; runpy.run_path('{place.file.name}')['{place.attribute}']()"
        return f"cd {shlex.quote(str(place.folder))} && python -c {shlex.quote(code)}"
    return f"python -c 'import {place.module} as m; m.{place.attribute}()'"


def user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The traceback's frames in files that are neither ours nor installed; else the last one."""
    frames = list(traceback.extract_tb(error.__traceback__))
    own = [frame for frame in frames if _is_users(frame.filename)]
    if isinstance(error, SyntaxError):  # which names the file itself
        return own
    return (own or frames[-1:])[-_MOST_FRAMES:]


def trains_in(error: BaseException) -> bool:
    """Whether it was raised by a training that the user's code began."""
    lines = [frame.line or "" for frame in user_frames(error)]
    return any(call in line for line in lines for call in _TRAINING)


def _is_users(file: str) -> bool:
    return not file.startswith(("<", *_NOT_THE_USERS))


def _lines(frames: list[traceback.FrameSummary], folder: Path) -> str:
    """The frames as Python shows them; files of the folder by their relative names."""
    prefix = f"{folder}/"
    shown = [
        traceback.FrameSummary(
            frame.filename.removeprefix(prefix), frame.lineno, frame.name, line=frame.line
        )
        for frame in frames
    ]
    return "".join(traceback.format_list(shown))
