"""What a model's own code raised, in a line."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MOST_LINES = 3


def in_short(error: Exception) -> str:
    """Its kind and the lines that tell what happened: Keras adds the arguments of the call."""
    text = _COLOUR.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines[:1] == ["in user code:"]:  # AutoGraph's: where it was comes first, what it is last
        return lines[-1]
    ends = [at for at, line in enumerate(lines) if line.startswith("Arguments received by")]
    return " ".join([f"{type(error).__name__}:", *lines[: min([*ends, _MOST_LINES])]])
