"""The functions of each framework that create devices, and wrappers that run before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class DeviceInitFunction(NamedTuple):
    """A module that exists only in the framework itself, and the functions in it to wrap."""

    module: str
    functions: tuple[str, ...] = ()


ENTRANCES = {
    "tensorflow": DeviceInitFunction(
        "tensorflow.python.eager.context"
    ),  # guards.py wraps its functions
    # torch's C++ code looks up this name in the module, and so do most of torch's own files.
    "torch": DeviceInitFunction("torch.cuda", ("_lazy_init",)),
    # The last function before XLA's variables are read; in older JAX, the one before it.
    "jax": DeviceInitFunction("jax._src.xla_bridge", ("discover_pjrt_plugins", "backends")),
}


def is_watched(owner: object, name: str) -> bool:
    """Whether the function ``name`` of ``owner`` has been wrapped here."""
    return hasattr(getattr(owner, name), "of_gpuconf")


def run_before(owner: object, name: str, before: Callable[[], None]) -> None:
    """Wrap the function ``name`` of ``owner`` so that ``before`` runs ahead of each call."""

    def around(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before()
        return original(*args, **kwargs)

    wrap_call(owner, name, around)


def wrap_call(owner: object, name: str, around: Callable[..., Any]) -> None:
    """Wrap the function ``name`` of ``owner``; ``around`` receives it and its arguments."""
    import functools  # only loaded when a framework is imported

    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    watched.of_gpuconf = True  # type: ignore[attr-defined]
    setattr(owner, name, watched)
