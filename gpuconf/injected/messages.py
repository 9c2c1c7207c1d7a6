"""A run's messages to the user, and the program line that they refer to."""

import os
import sys

_MIB = 1024 * 1024
# Packages whose frames lie between the user's line and this code.
_LIBRARIES = frozenset(
    ("tensorflow", "tensorflow_core", "tensorflow_estimator", "keras", "tf_keras", "jax", "torch")
    + ("importlib", "_frozen_importlib", "_frozen_importlib_external", "contextlib", "functools")
    + ("threading",)
)
_said = set()


def say(text):
    """Write one line to stderr, at most once per process; never raise."""
    if text in _said:
        return
    _said.add(text)
    try:
        sys.stderr.write("gpuconf: %s\n" % (text,))
        sys.stderr.flush()
    except Exception:
        pass  # closed, None, or an object set by the program


def user_line():
    """Return the program's current line, such as ``train.py:4``; "the program" if unknown."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__") or "")
        file = frame.f_code.co_filename
        ours = name.startswith("_gpuconf_injected_") or name.partition(".")[0] in _LIBRARIES
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
    """Return whole MiB, such as ``2048 MiB``, rounded down as TensorFlow does with a limit."""
    return "%d MiB" % (size_bytes // _MIB,)
