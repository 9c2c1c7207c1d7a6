"""Which framework failed, and on which system: what is proposed depends on both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from gpuconf.messages.log.watching import Line

Framework = Literal["tensorflow", "jax", "torch"]

# In this order: PyTorch's and JAX's messages come with TensorFlow's lines about them often enough,
# and the other way round seldom.
_OF: tuple[tuple[Framework, re.Pattern[str]], ...] = (
    ("torch", re.compile(r"\b(?:py)?torch\b|c10|aten/|when calling `cu", re.IGNORECASE)),
    ("jax", re.compile(r"\bjax(?:lib)?\b|xla_bridge|XlaRuntimeError|JaxRuntime", re.IGNORECASE)),
    ("tensorflow", re.compile(r"tensorflow|keras|\btf\.", re.IGNORECASE)),
)
_WINDOWS = re.compile(r"\.dll\b|\b[A-Za-z]:\\|WinError", re.IGNORECASE)


class FrameworkReader:
    """Watches a log for the frameworks' names, and for Windows' paths."""

    parts: Sequence[str] = ()
    phrases: Sequence[str] = (
        "torch", "pytorch", "aten", "jax", "jaxlib", "xla bridge", "xlaruntimeerror",
        "jaxruntimeerror", "tensorflow", "keras", "tf", "dll", "winerror", "c users", "c",
    )  # fmt: skip

    def __init__(self) -> None:
        self.on_windows = False
        self._mentions: Counter[Framework] = Counter()

    def see(self, line: Line) -> None:
        """Count a line's framework."""
        text = line.text[:1000]
        self.on_windows = self.on_windows or _WINDOWS.search(text) is not None
        for name, pattern in _OF:
            if pattern.search(text):
                self._mentions[name] += 1

    def framework(self, told: Iterable[str]) -> Framework | None:
        """The framework of the lines that show the cause; else the one named most often."""
        text = "\n".join(told)
        for name, pattern in _OF:
            if pattern.search(text):
                return name
        most = self._mentions.most_common(1)
        return most[0][0] if most else None
