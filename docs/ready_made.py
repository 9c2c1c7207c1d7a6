"""The text of gpuconf/profile/ready_made.py: the shipped profiles as values, from their YAML."""

from __future__ import annotations

import json
from pathlib import Path

from gpuconf.profile import Profile
from gpuconf.profile.building import build
from gpuconf.profile.files import fingerprint
from gpuconf.profile.search import Location

HEAD = '''"""The shipped profiles as values, by the fingerprints of their files: `make generated`.

A file with another fingerprint is read, as any profile is.  One that extends another is not here:
two files decide what it says.
"""

from __future__ import annotations

from gpuconf.profile.model import GpuSelection, MemoryRules, Profile, TensorFlowRules
from gpuconf.basics.units import Amount

'''


def module_text(folder: Path) -> str:
    """The module for the profiles in ``folder``, laid out as `ruff format` does."""
    entries = "".join(
        f"    {fingerprint(file.read_bytes())}: {source_of(profile, indent=4)},\n"
        for file, profile in profiles(folder)
    )
    return f"{HEAD}PROFILES = {{\n{entries}}}\n"


def profiles(folder: Path) -> list[tuple[Path, Profile]]:
    """Each file with what it says; those that extend another are left out."""
    found = []
    for file in sorted(folder.glob("*.yaml")):
        profile, problems = build(Location(file.stem, str(file), "shipped"), (), {})
        if profile is not None and not problems:
            found.append((file, profile._replace(source=None, origin="path")))
    return found


def source_of(value: object, *, indent: int) -> str:
    """``value`` as Python; of a value type those fields that have another value than by default."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, tuple):
        return repr(value)
    names = getattr(value, "_fields", None)
    if names is None:
        items = [source_of(each, indent=indent) for each in value]
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    plain = type(value)._field_defaults
    told = [name for name in names if name not in plain or getattr(value, name) != plain[name]]
    parts = [f"{name}={source_of(getattr(value, name), indent=indent + 4)}" for name in told]
    if len(parts) < 2:
        return f"{type(value).__name__}({''.join(parts)})"
    lines = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"{type(value).__name__}(\n{lines}{' ' * indent})"
