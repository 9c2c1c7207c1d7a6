"""The functions of each framework through which devices are made, by name; imports none."""

from __future__ import annotations

from typing import NamedTuple


class Entrance(NamedTuple):
    """A module of the framework, the class in it, if any, and the functions there."""

    module: str
    functions: tuple[str, ...]
    of_class: str | None = None


ENTRANCES = {
    "tensorflow": Entrance(
        "tensorflow.python.eager.context",
        ("_initialize_physical_devices", "ensure_initialized"),
        "Context",
    ),
    # torch's C++ looks the name up in the module, and so do most of its own files.
    "torch": Entrance("torch.cuda", ("_lazy_init",)),
    # The last function before XLA's variables are read, and in an older JAX the one before that.
    "jax": Entrance("jax._src.xla_bridge", ("discover_pjrt_plugins", "backends")),
}
