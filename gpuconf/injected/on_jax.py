"""JAX: sets the environment variable for its limit just before JAX creates its first backend.

XLA reads the variable at that time.
"""

import os
import sys

_site = sys.modules["_gpuconf_injected_site"]
_messages = _site.load("messages")
_wrapping = _site.load("wrapping")
_wrap = _wrapping.wrap
_MODULES = ("jax._src.xla_bridge", "jax._src.lib.xla_bridge", "jax.lib.xla_bridge")
# The last function called before XLA reads its variables, or an earlier one in older JAX.
_FUNCTIONS = ("discover_pjrt_plugins", "backends", "get_backend")
_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_HELD = "_held_by_gpuconf_run"
_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"


def hold(jax, run):
    """Apply ``run`` to the imported JAX when it creates its first backend."""
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
        "JAX %s creates its backends in a place that this version of gpuconf does not know about"
        % (jax.__version__,)
    )


def _before_first_backend(run):
    """Set the variables, which the program may have changed, and count this process."""
    if not _may_use_gpus():
        return
    run.take_places()
    shares = [card.fraction_of("jax") for card in ([] if run.hides_gpus else run.cards_left())]
    shares = [share for share in shares if share is not None]
    if not shares:
        return
    share, name = min(shares), _fraction_name()
    asked = [os.environ.pop(each) for each in _FRACTIONS if each in os.environ]
    try:
        smaller = [each for each in asked if 0 < float(each) <= share + 1e-6]
    except ValueError:
        smaller = []  # JAX would have refused them
    os.environ[name] = (smaller or ["%.9g" % (share,)])[0]
    if asked and not smaller:
        _messages.say("the program sets %s=%s, but gets %s" % (name, asked[0], os.environ[name]))
    if os.environ.get(_ALLOCATOR, "").lower() == "platform":
        _messages.say(
            "with %s=platform, JAX allocates memory call by call, without a limit" % _ALLOCATOR
        )


def _may_use_gpus():
    """Whether this JAX can create a GPU client: it was built with CUDA, or has the CUDA plugin.

    JAX on the CPU is not counted among the processes of a run.
    """
    asked = os.environ.get("JAX_PLATFORMS") or os.environ.get("JAX_PLATFORM_NAME") or ""
    platforms = [each.strip().lower() for each in asked.split(",") if each.strip()]
    if platforms and not set(platforms) & {"cuda", "gpu"}:
        return False
    jaxlib = sys.modules.get("jaxlib")
    if "cuda" in str(getattr(jaxlib, "__version__", "cuda")):
        return True
    folders = [os.path.join(path or os.curdir, "jax_plugins") for path in sys.path]
    found = [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]
    return any(name.startswith("xla_cuda") for name in found)


def _fraction_name():
    """Return the variable that JAX reads; its source has had the newer name since 0.4.33."""
    client = sys.modules.get("jaxlib.xla_client")
    try:
        with open(str(getattr(client, "__file__", ""))) as source:
            return _FRACTIONS[0] if _FRACTIONS[0] in source.read() else _FRACTIONS[1]
    except (IOError, OSError, ValueError):
        return _FRACTIONS[1]
