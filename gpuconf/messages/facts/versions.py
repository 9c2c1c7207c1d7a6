"""Which versions of Python, the frameworks, CUDA and cuDNN a log names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuconf.messages.facts.matching import first_group
from gpuconf.messages.log.stream import Line

_VERSION = r"(\d{1,4}(?:\.\d{1,4}){1,3}(?:[-.+a-z]\w{1,16})?)"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("python", re.compile(r"[/\\]python(3\.\d{1,2})[/\\]|\bPython (3\.\d{1,2}(?:\.\d{1,2})?)\b")),
    ("tensorflow", re.compile(
        rf"\b(?:tensorflow(?:[-_]gpu|[-_]cpu)?|TF)(?: [Vv]ersion)?(?:==|:? |-){_VERSION}",
        re.IGNORECASE)),
    ("keras", re.compile(rf"\bkeras(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("torch", re.compile(rf"\b(?:py)?torch(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("jax", re.compile(rf"\bjax(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("jaxlib", re.compile(rf"\bjaxlib(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("cuda", re.compile(r"\bCUDA [Vv]ersion:? (\d{1,2}\.\d{1,2})\b")),
    ("cudnn", re.compile(r"Loaded cuDNN version (\d[\d.]{2,8})\b")),
)  # fmt: skip


class VersionReader:
    """Watches a log for versions; ``found`` has the first of each."""

    parts: Sequence[str] = ()
    phrases: Sequence[str] = (
        "python", "tensorflow", "tf", "keras", "torch", "pytorch", "jax", "jaxlib", "cuda version",
        "loaded cudnn version", "tensorflow gpu",
    )  # fmt: skip

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def see(self, line: Line) -> None:
        """Note the versions in a line."""
        for name, pattern in _PATTERNS:
            if name not in self.found:
                told = first_group(pattern, line.text[:1000])
                if told is not None:
                    self.found[name] = told
