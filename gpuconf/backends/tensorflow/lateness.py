"""Whether TensorFlow has made its GPU devices before we could set anything, and where."""

from __future__ import annotations

import sys
from typing import Any

from gpuconf.callsite import user_frame

# Calls that make devices, as their dotted names end; found by running each alone on TF 2.21 and
# 2.15 and reading the context's handle afterwards.
_MAKERS = (
    "list_local_devices",
    "gpu_device_name",
    "is_gpu_available",
    "list_logical_devices",
    "get_memory_info",
    "MirroredStrategy",
    "Session",
    "InteractiveSession",
    "constant",
    "Variable",
    "convert_to_tensor",
    "zeros",
    "ones",
    "fill",
    "range",
    "from_tensor_slices",
    "compile",
    "fit",
    "load_model",
    "Sequential",
    "Model",
    "Dropout",
    "Adam",
    "SGD",
    "RMSprop",
    "load_data",
    "set_seed",
)
_CERTAIN = _MAKERS[:12]


def devices_exist() -> str | None:
    """How we know that TensorFlow's GPU devices were made already; None if they were not.

    The eager context's handle tells for tensors and variables.  ``list_local_devices`` and its
    kin leave that handle empty; then the driver knows, because the devices hold the card's
    primary context.
    """
    from tensorflow.python.eager import context

    handle = getattr(context.context(), "_context_handle", None)
    if handle is not None:
        return "the eager context is initialised"
    if getattr(context.context(), "_initialized", False):
        return "the eager context is initialised"
    if _primary_context_active() and not _others_use_cuda():
        return "this process has a CUDA context, as list_local_devices or a Session makes it"
    return None


def _primary_context_active() -> bool:
    """Whether this process holds the primary CUDA context of any device, by the driver's word.

    cuDevicePrimaryCtxGetState creates nothing.  Where libcuda is not loaded, or never was
    initialised, there is no context.
    """
    import ctypes
    import os

    try:
        cuda = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    count, device = ctypes.c_int(), ctypes.c_int()
    flags, active = ctypes.c_uint(), ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return False
    for ordinal in range(count.value):
        if cuda.cuDeviceGet(ctypes.byref(device), ordinal) != 0:
            continue
        state = cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
        if state == 0 and active.value:
            return True
    return False


def _others_use_cuda() -> bool:
    """Whether another library in this process may own that context."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return True
    return any(name in sys.modules for name in ("cupy", "pycuda.driver", "numba.cuda", "jaxlib"))


def likely_line() -> str | None:
    """``file:line`` of the call that most likely made the devices, read from the source.

    We were not there, so this looks at what ran before us: the importing file down to the
    current line, then the user's own modules.  None where nothing fits.
    """
    import ast
    import linecache

    frame = user_frame()
    if frame is None:
        return None
    places = [(frame.f_code.co_filename, frame.f_lineno), *_user_modules()]
    for filename, last_line in places:
        source = "".join(linecache.getlines(filename, frame.f_globals))
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        line = _first_maker(tree, before=last_line)
        if line is not None:
            return f"{filename}:{line} ({source.splitlines()[line - 1].strip()})"
    return None


def _user_modules() -> list[tuple[str, int]]:
    """Files of imported modules that are neither the standard library's nor installed."""
    found = []
    for name, module in list(sys.modules.items()):
        filename = getattr(module, "__file__", None) or ""
        installed = "site-packages" in filename or filename.startswith(sys.base_prefix)
        if filename.endswith(".py") and not installed and not name.startswith("gpuconf"):
            found.append((filename, sys.maxsize))
    return found


def _first_maker(tree: Any, *, before: int) -> int | None:
    """The line of the first module-level call that makes devices: a certain one, else a likely."""
    import ast

    calls = [
        (node.lineno, _called_name(node))
        for statement in tree.body
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and node.lineno < before
    ]
    for names in (_CERTAIN, _MAKERS):
        lines = sorted(line for line, name in calls if name in names)
        if lines:
            return lines[0]
    return None


def _called_name(call: Any) -> str:
    function = call.func
    return str(getattr(function, "attr", getattr(function, "id", "")))
