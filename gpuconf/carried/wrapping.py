"""Functions of a framework wrapped in ours, once."""

import functools

_MARK = "_of_gpuconf_run"


class MissingError(RuntimeError):
    """The framework lacks a function without which it cannot be held to a plan."""

    hint = "report this version, and start the program without `gpuconf run` until then"


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
