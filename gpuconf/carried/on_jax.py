"""JAX: its limit is a variable that XLA reads when JAX makes its first backend, not before."""

import os
import sys

_site = sys.modules["_gpuconf_carried_site"]
_words = _site.load("words")
_wrapping = _site.load("wrapping")
_wrap = _wrapping.wrap
_MODULES = ("jax._src.xla_bridge", "jax._src.lib.xla_bridge", "jax.lib.xla_bridge")
# The last function before XLA's variables are read, or one before that in an older JAX.
_FUNCTIONS = ("discover_pjrt_plugins", "backends", "get_backend")
_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_HELD = "_held_by_gpuconf_run"
_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"


def hold(jax, run):
    """Hold the imported JAX to ``run`` when it makes its first backend."""
    if not isinstance(getattr(jax, "__version__", None), str):
        return  # a stub, or a folder of that name

    def watched(original, *args, **kwargs):
        if not getattr(bridge, "_backends", None):
            _before_first_backend(run)
        return original(*args, **kwargs)

    for bridge in [sys.modules[name] for name in _MODULES if name in sys.modules]:
        if getattr(bridge, "_backends", None) and not hasattr(bridge, _HELD):
            raise _wrapping.TooLateError("JAX")
        setattr(bridge, _HELD, True)
        for name in _FUNCTIONS:
            if hasattr(bridge, name):
                _wrap(bridge, name, watched, "JAX")
                return
    raise _wrapping.MissingError(
        "JAX %s makes its backends where this gpuconf does not look" % (jax.__version__,)
    )


def _before_first_backend(run):
    """Set the variables anew, which the program may have changed, and count this process."""
    if os.environ.get("JAX_PLATFORMS", "").strip().lower() != "cpu":
        run.take_places()
    shares = [card.fraction_of("jax") for card in ([] if run.hides_gpus else run.cards_left())]
    shares = [share for share in shares if share is not None]
    if not shares:
        return
    name = _FRACTIONS[0] if _FRACTIONS[0] in os.environ else _FRACTIONS[1]
    share, asked = min(shares), os.environ.get(name)
    try:
        if asked is not None and 0 < float(asked) <= share + 1e-6:
            return
    except ValueError:
        pass  # which JAX would have refused
    os.environ[name] = "%.9g" % (share,)
    if asked is not None:
        _words.say("the program sets %s=%s, and gets %s" % (name, asked, os.environ[name]))
    if os.environ.get(_ALLOCATOR) == "platform":
        _words.say("with %s=platform JAX takes memory call by call, without a limit" % _ALLOCATOR)
