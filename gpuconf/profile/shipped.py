"""The profiles that gpuconf ships: in its folder, or in the zip that it was imported from."""

from __future__ import annotations

import os
import sys

from gpuconf.profile.encoding import read_bytes

_PACKAGE = os.path.dirname(os.path.dirname(__file__))


def shipped_folder() -> str:
    """The folder of the shipped profiles: inside the package, or beside it in a checkout."""
    package = os.path.abspath(_PACKAGE)
    inside = os.path.join(package, "configs")
    beside = os.path.join(os.path.dirname(package), "configs")
    if not os.path.isdir(inside) and os.path.isfile(os.path.join(beside, "profile.schema.json")):
        return beside
    return inside


def is_shipped(path: str) -> bool:
    """Whether a file of that path, below ``shipped_folder()``, is there."""
    return os.path.lexists(path) or _from_archive(path) is not None


def read_shipped(path: str) -> bytes:
    """The bytes of a shipped profile."""
    data = None if os.path.lexists(path) else _from_archive(path)
    return read_bytes(path) if data is None else data


def shipped_files() -> list[str]:
    """The names of the files in the folder, also where it lies in an archive."""
    try:
        return sorted(os.listdir(shipped_folder()))
    except OSError:
        return _names_in_archive()


def missing_shipped_hint() -> str:
    """What to do where there is no shipped profile at all."""
    if getattr(sys, "frozen", False):
        return (
            "the program was frozen without them. Freeze it anew: "
            "pyinstaller --collect-data gpuconf SCRIPT"
        )
    if not os.path.isdir(_PACKAGE):
        return (
            "the archive lacks the folder gpuconf/configs. Make the archive of the folder that "
            "this fills: pip install --target FOLDER gpuconf"
        )
    return "the installation is damaged. Repair it: pip install --force-reinstall gpuconf"


def _from_archive(path: str) -> bytes | None:
    """The file's bytes by the loader that this package came from; None where it has none."""
    get_data = getattr(__spec__.loader, "get_data", None) if __spec__ else None
    if get_data is None or "\x00" in path or os.path.isdir(_PACKAGE):
        return None
    try:
        # The loader knows the archive by the name in __file__, which may be relative.
        data: bytes = get_data(os.path.join(_PACKAGE, "configs", os.path.basename(path)))
    except OSError:
        return None
    return data


def _names_in_archive() -> list[str]:
    if os.path.isdir(_PACKAGE):
        return []
    from importlib.resources import files  # heavy, and only an archive needs it

    try:
        return sorted(entry.name for entry in files("gpuconf").joinpath("configs").iterdir())
    except (OSError, ValueError, KeyError):
        return []
