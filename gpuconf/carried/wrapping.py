"""Functions of a framework wrapped in ours, once."""

import functools

_MARK = "_of_gpuconf_run"


class MissingError(RuntimeError):
    """The framework lacks a function without which it cannot be held to a plan."""

    hint = "report this version, and start the program without `gpuconf run` until then"


class TooLateError(RuntimeError):
    """The framework has made its devices, and no limit can be set any more."""

    hint = "Python runs .pth files before the plan is there: find the one with `python -v -c pass`"

    def __init__(self, framework):
        text = "%s had made its devices before the plan could reach it" % (framework,)
        super(TooLateError, self).__init__(text)


def wrap(owner, name, wrapper, framework="TensorFlow"):
    """Call ``wrapper(original, ...)`` for ``owner.name(...)``; raise MissingError if there is none.

    What is wrapped already stays as it is.
    """
    original = getattr(owner, name, None)
    if original is None:
        place = getattr(owner, "__name__", owner)
        raise MissingError("this %s has no %s.%s" % (framework, place, name))
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def guarded(*args, **kwargs):
        return wrapper(original, *args, **kwargs)

    setattr(guarded, _MARK, True)
    setattr(owner, name, guarded)
