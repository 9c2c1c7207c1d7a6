"""How a model is to be estimated."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.errors import UsageError

_PRECISIONS = {
    True: "mixed_float16", "float16": "mixed_float16", "mixed_float16": "mixed_float16",
    "bfloat16": "mixed_bfloat16", "mixed_bfloat16": "mixed_bfloat16",
    False: "float32", "float32": "float32",
}  # fmt: skip


class Choice(NamedTuple):
    """How the model is to be estimated; None leaves what the model says."""

    training: bool = True
    optimizer: Any = None
    loss: Any = None
    policy: str | None = None
    jit: bool = False


def policy_named(mixed_precision: Any) -> str | None:
    """Keras's dtype policy for True, False, ``bfloat16`` and the like; UsageError for others."""
    if mixed_precision is None:
        return None
    try:
        return _PRECISIONS[mixed_precision]
    except (KeyError, TypeError):
        raise UsageError(
            f"mixed_precision={mixed_precision!r} is not known",
            hint="give True, False, 'mixed_float16' or 'mixed_bfloat16'",
        ) from None
