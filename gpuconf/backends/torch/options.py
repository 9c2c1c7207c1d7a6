"""Parse torch's allocator variables.

``max_split_size_mb:128,roundup_power2_divisions:[256:1,>:4]`` has two options: within brackets a
comma separates values (c10/core/AllocatorConfig.h, ConfigTokenizer).
"""

from __future__ import annotations

import re

# The first is for CUDA only.  torch has called it deprecated since 2.9, and older versions read no
# other.
OPTION_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_OPTION = re.compile(r"([^,:\[\]]+)(?::((?:\[[^\]]*\]|[^,\[\]])*))?")


def options_in(value: str) -> list[tuple[str, str]]:
    """Return the names and values without white space; a value may be missing."""
    bare = "".join(value.split())
    return [(found[1], found[2] or "") for found in _OPTION.finditer(bare)]
