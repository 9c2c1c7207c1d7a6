"""What a run says to the user, and which line of the program it is about."""

import os
import sys

_MIB = 1024 * 1024
# Frames of these packages stand between the user's line and ours.
_LIBRARIES = frozenset(
    ("tensorflow", "tensorflow_core", "tensorflow_estimator", "keras", "tf_keras", "jax", "torch")
    + ("importlib", "_frozen_importlib", "_frozen_importlib_external", "contextlib", "functools")
    + ("threading",)
)
_said = set()


def say(text):
    """Write one line to stderr, the same one once in a process; never raise."""
    if text in _said:
        return
    _said.add(text)
    try:
        sys.stderr.write("gpuconf: %s\n" % (text,))
        sys.stderr.flush()
    except Exception:
        pass  # closed, None, or an object of the program's


def user_line():
    """``train.py:4``, the line of the program that is being run; "the program" if unknown."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__") or "")
        file = frame.f_code.co_filename
        ours = name.startswith("_gpuconf_carried_") or name.partition(".")[0] in _LIBRARIES
        if not ours and not file.startswith("<frozen"):
            return "%s:%d" % (_short(file), frame.f_lineno)
        frame = frame.f_back
    return "the program"


def _short(file):
    try:
        here = os.getcwd() + os.sep
    except OSError:
        return file
    return file[len(here) :] if file.startswith(here) else file


def mib(size_bytes):
    """``2048 MiB``: whole MiB, rounded down as TensorFlow takes a limit."""
    return "%d MiB" % (size_bytes // _MIB,)
