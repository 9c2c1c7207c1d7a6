"""TensorFlow's error for a step with operations that XLA does not support.  Pure."""

from __future__ import annotations

import re

_REFUSAL = "Detected unsupported operations when trying to compile graph"
_OPERATION = re.compile(r"No registered '(\w{1,200})' OpKernel for XLA")
_SAID = "XLA cannot compile"
_HINT = "compile(..., jit_compile=False) runs it without XLA"


def refused_by_xla(text: str) -> str | None:
    """The operations that XLA lacks, as a sentence; None if ``text`` is not that error.

    Keras compiles a step with XLA without checking its operations, so a script with one of these
    fails on every GPU.
    """
    if _REFUSAL not in text:
        return None
    names = sorted(set(_OPERATION.findall(text.partition(_REFUSAL)[2])))
    shown = " and ".join(names) or "an operation of this step"
    return f"{_SAID} {shown} for a GPU, so the step fails there"


def hint_of_refusal(message: str) -> str | None:
    """The fix, if ``message`` comes from `refused_by_xla`."""
    return _HINT if message.startswith(_SAID) else None
