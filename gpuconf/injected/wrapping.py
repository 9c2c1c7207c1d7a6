"""Wraps functions of a framework, once each."""

import functools

_MARK = "_of_gpuconf_run"


class MissingError(RuntimeError):
    """The framework lacks a function that is needed to apply a plan."""

    hint = "report this version; until it is supported, start the program without `gpuconf run`"


class TooLateError(RuntimeError):
    """The framework has already created its devices, so limits can no longer be set."""

    hint = "a .pth file runs before the plan is set: find it with `python -v -c pass`"

    def __init__(self, framework):
        text = "%s initialized its GPUs before gpuconf could set the limit" % (framework,)
        super(TooLateError, self).__init__(text)


def wrap(owner, name, wrapper, framework="TensorFlow"):
    """Make ``owner.name(...)`` call ``wrapper(original, ...)``; raise MissingError if missing.

    A function that is already wrapped is left unchanged.
    """
    original = getattr(owner, name, None)
    if original is None:
        place = getattr(owner, "__name__", owner)
        raise MissingError("this version of %s has no %s.%s" % (framework, place, name))
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def guarded(*args, **kwargs):
        return wrapper(original, *args, **kwargs)

    setattr(guarded, _MARK, True)
    setattr(owner, name, guarded)
