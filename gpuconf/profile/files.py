"""The bytes of a profile file: which files may be opened, and where the shipped ones are."""

from __future__ import annotations

import os
import stat
import sys

from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile.problems import nearest

LARGEST_FILE_BYTES = 256 * 1024
_LIST = "list the profiles: gpuconf profiles list"


def read_bytes(path: str) -> bytes:
    """Read the regular file at ``path``; raise ProfileError if it is something else.

    Pipes and devices are rejected before they are opened (a pipe would block forever), and a file
    larger than 256 KiB is rejected before it is read.
    """
    try:
        status = os.stat(path)
        if refusal := _refused_kind(path, status):
            raise refusal
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE_BYTES + 1)
    except ProfileError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if len(data) > LARGEST_FILE_BYTES:  # /proc reports a size of 0
        raise _too_large(path, len(data))
    return data


def _refused_kind(path: str, status: os.stat_result) -> ProfileError | None:
    if stat.S_ISDIR(status.st_mode):
        return _refusal("this is a folder; a profile must be a YAML file", _LIST, path)
    if not stat.S_ISREG(status.st_mode):
        message = "this is not a regular file (it is a pipe or a device)"
        return _refusal(message, "save it to a file", path)
    return _too_large(path, status.st_size) if status.st_size > LARGEST_FILE_BYTES else None


def _too_large(path: str, size_bytes: int) -> ProfileError:
    limit = f"{LARGEST_FILE_BYTES} (256 KiB)"
    message = f"the file has at least {size_bytes} bytes; a profile can have at most {limit}"
    hint = "check that it is the right file; for an example: gpuconf profiles show shared-desktop"
    return _refusal(message, hint, path)


def _unreadable(path: str, error: OSError | ValueError) -> ProfileError:
    """Return the error for a file that cannot be opened."""
    if isinstance(error, PermissionError):
        return _refusal("this user has no permission to read the file", f"chmod u+r {path}", path)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        missing = "a link to a file that does not exist" if os.path.islink(path) else "no such file"
        return ProfileNotFoundError(missing, hint=_missing_hint(path), file=path)
    reason = getattr(error, "strerror", None) or str(error)
    return _refusal(f"the file cannot be read: {reason}", _LIST, path)


def _missing_hint(path: str) -> str:
    """Suggest a file with a similar name in the same folder."""
    folder, name = os.path.split(path)
    try:
        beside = {n for n in os.listdir(folder or ".") if n.endswith((".yaml", ".yml"))}
    except (OSError, ValueError):
        beside = set()
    meant = nearest(name, sorted(beside - {name}))
    return f"did you mean {os.path.join(folder, meant)}?" if meant else _LIST


def _refusal(message: str, hint: str, path: str) -> ProfileError:
    return ProfileError(message, hint=hint, file=path, line=1, column=1)


def shipped_folder() -> str:
    """Return the folder of the shipped profiles: in the package, or next to it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "configs")
    beside = os.path.join(os.path.dirname(package), "configs")
    if not os.path.isdir(inside) and os.path.isfile(os.path.join(beside, "profile.schema.json")):
        return beside
    return inside


def missing_shipped_hint() -> str:
    """Return the hint for an installation without any shipped profiles."""
    if getattr(sys, "frozen", False):
        return (
            "the program was frozen without these files. Freeze it again: "
            "pyinstaller --collect-data gpuconf SCRIPT"
        )
    return "the installation is damaged. Repair it: pip install --force-reinstall gpuconf"
