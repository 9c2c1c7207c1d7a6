"""Where the imported Keras computes."""

from __future__ import annotations

import sys


def elsewhere() -> str | None:
    """Where the imported Keras 3 computes, such as ``jax``; None for TensorFlow or no Keras 3.

    TensorFlow beside such a Keras only reads data and saves files; with a GPU in sight it would
    take memory from the framework that trains.
    """
    backend = getattr(sys.modules.get("keras.src.backend.config"), "backend", None)
    if not callable(backend):
        return None
    name = str(backend())
    return None if name == "tensorflow" else name
