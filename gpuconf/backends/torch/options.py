"""torch's variables for its allocator, taken apart, and which options the installed torch knows.

``max_split_size_mb:128,roundup_power2_divisions:[256:1,>:4]`` has two options: within brackets a
comma separates values (c10/core/AllocatorConfig.h, ConfigTokenizer).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

# The first is for CUDA alone; torch since 2.9 calls it deprecated, and before reads no other.
OPTION_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# Which of the two has an option's name differs between releases (2.9.1 and 2.15.0).
_LIBRARIES = ("libc10.so", "libc10_cuda.so")
_OPTION = re.compile(r"([^,:\[\]]+)(?::((?:\[[^\]]*\]|[^,\[\]])*))?")


def options_in(value: str) -> list[tuple[str, str]]:
    """Names and values as they stand there, without white space; a value may be missing."""
    bare = "".join(value.split())
    return [(found[1], found[2] or "") for found in _OPTION.finditer(bare)]


def unknown_options(folders: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that do not occur in torch's libraries, in the first of ``folders``.

    With one of them in its variables torch cannot start CUDA.  Empty where the libraries are not
    there to be read.
    """
    names = tuple(names)
    found = [_first_bytes(folders, library) for library in _LIBRARIES] if names else []
    libraries = [each for each in found if each is not None]
    if len(libraries) < len(_LIBRARIES):
        return ()
    return tuple(name for name in names if not any(_has_text(each, name) for each in libraries))


def _has_text(library: bytes, text: str) -> bool:
    """Whether a C string of the library is ``text``."""
    return re.search(rb"(?<![\w ])%s\0" % re.escape(text.encode()), library) is not None


def _first_bytes(folders: Sequence[str], name: str) -> bytes | None:
    there = (file for file in (Path(folder, name) for folder in folders) if file.is_file())
    with suppress(OSError, StopIteration):
        return next(there).read_bytes()
    return None
