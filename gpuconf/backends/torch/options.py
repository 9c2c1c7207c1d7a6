"""Parse torch's allocator variables, and check which options the installed torch knows.

``max_split_size_mb:128,roundup_power2_divisions:[256:1,>:4]`` has two options: within brackets a
comma separates values (c10/core/AllocatorConfig.h, ConfigTokenizer).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

# The first is for CUDA only.  torch has called it deprecated since 2.9, and older versions read no
# other.
OPTION_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# Releases differ in which of the two contains an option's name (2.9.1 and 2.15.0).
_LIBRARIES = ("libc10.so", "libc10_cuda.so")
_OPTION = re.compile(r"([^,:\[\]]+)(?::((?:\[[^\]]*\]|[^,\[\]])*))?")


def options_in(value: str) -> list[tuple[str, str]]:
    """Return the names and values without white space; a value may be missing."""
    bare = "".join(value.split())
    return [(found[1], found[2] or "") for found in _OPTION.finditer(bare)]


def unknown_options(folders: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``names`` that do not occur in torch's libraries, in the first of
    ``folders``.

    If its variables contain one of these, torch cannot initialize CUDA.  Empty if the libraries
    cannot be read.
    """
    names = tuple(names)
    found = [_first_bytes(folders, library) for library in _LIBRARIES] if names else []
    libraries = [each for each in found if each is not None]
    if len(libraries) < len(_LIBRARIES):
        return ()
    return tuple(name for name in names if not any(_has_text(each, name) for each in libraries))


def _has_text(library: bytes, text: str) -> bool:
    """Whether the library contains ``text`` as a C string."""
    return re.search(rb"(?<![\w ])%s\0" % re.escape(text.encode()), library) is not None


def _first_bytes(folders: Sequence[str], name: str) -> bytes | None:
    there = (file for file in (Path(folder, name) for folder in folders) if file.is_file())
    with suppress(OSError, StopIteration):
        return next(there).read_bytes()
    return None
