"""The found files that the user has read and trusts: a folder with a small record for each.

``$XDG_STATE_HOME/gpuconf/trusted/HASH`` (else ``~/.local/state/…``) holds the path of a trusted
file. HASH covers that path and the file's content, so a file that changes is no longer trusted. In
the path, links are resolved in the folders but not in the last part: a link in a repository does
not inherit the trust of its target.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from typing import Literal, NamedTuple

from gpuconf.basics.processes import own_user
from gpuconf.errors import GpuconfError, ProfileError
from gpuconf.profile.files import read_bytes
from gpuconf.profile.folders import user_folder

_LONGEST_PATH = 65536


class TrustedFile(NamedTuple):
    """A file that the user has trusted."""

    path: str
    """Its path."""
    state: Literal["trusted", "changed", "gone"]
    """Whether it is still trusted, has changed since, or is gone."""


def trust_key(path: str) -> str:
    """Return the path used for trust: absolute, links resolved in folders, the last part as
    given."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def is_trusted(path: str, data: bytes, environ: Mapping[str, str]) -> bool:
    """Whether this user trusts the file ``path`` with exactly this content."""
    folder = _store(environ)
    if folder is None or not os.path.isdir(folder) or not _is_our_folder(folder):
        return False
    key = trust_key(path)
    return _recorded_path(os.path.join(folder, _hash(key, data))) == key


def was_trusted(path: str, environ: Mapping[str, str]) -> bool:
    """Whether any content of ``path``, current or earlier, was trusted."""
    key = trust_key(path)
    try:
        return any(recorded == key for _, recorded in _records(environ))
    except GpuconfError:
        return False


def record(path: str, data: bytes, environ: Mapping[str, str]) -> None:
    """Trust ``path`` with this content from now on; raise GpuconfError if it cannot be recorded."""
    folder = _store(environ)
    if folder is None:
        raise GpuconfError(
            "no folder to store trust records in: neither HOME nor XDG_STATE_HOME is set",
            hint="export XDG_STATE_HOME=FOLDER",
        )
    key = trust_key(path)
    target = os.path.join(folder, _hash(key, data))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_our_folder(folder):
            raise GpuconfError(
                f"{folder} belongs to another user, or others have permission to write to it",
                hint=f"ls -ld {folder}",
            )
        with (
            tempfile.TemporaryDirectory(dir=folder, suffix=".tmp") as made,
            tempfile.NamedTemporaryFile(dir=made, delete=False) as file,
        ):
            file.write(os.fsencode(key))
            file.flush()
            os.replace(file.name, target)
    except OSError as error:
        raise _unwritable(folder, error) from error


def revoke(path: str, environ: Mapping[str, str]) -> bool:
    """Revoke trust for all content of ``path``; return False if none was trusted."""
    key = trust_key(path)
    files = [file for file, recorded in _records(environ) if recorded == key]
    try:
        for file in files:
            os.unlink(file)
    except OSError as error:
        raise _unwritable(os.path.dirname(files[0]), error) from error
    return bool(files)


def trusted_files(environ: Mapping[str, str]) -> list[TrustedFile]:
    """List all trusted files by path; a file with several trusted contents is listed once."""
    hashes: dict[str, set[str]] = {}
    for file, path in _records(environ):
        hashes.setdefault(path, set()).add(os.path.basename(file))
    return [TrustedFile(path, _state(path, hashes[path])) for path in sorted(hashes)]


def _state(path: str, hashes: set[str]) -> Literal["trusted", "changed", "gone"]:
    if not os.path.exists(path):
        return "gone"
    try:
        return "trusted" if _hash(path, read_bytes(path)) in hashes else "changed"
    except ProfileError:
        return "changed"


def _records(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """List the file of every valid record, and the path in it."""
    folder = _store(environ)
    try:
        names = sorted(os.listdir(folder)) if folder is not None else []
    except FileNotFoundError:
        return []
    except OSError as error:
        raise GpuconfError(
            f"{folder} cannot be read: {error.strerror}", hint=f"ls -ld {folder}"
        ) from error
    files = [os.path.join(folder or "", name) for name in names if not name.endswith(".tmp")]
    return [(file, path) for file in files if (path := _recorded_path(file)) is not None]


def _recorded_path(file: str) -> str | None:
    """Return the path in a record; None unless it exists and this user wrote it."""
    if sys.platform == "win32":  # where no file is trusted
        return None
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            return None
        return os.fsdecode(opened.read(_LONGEST_PATH))


def _store(environ: Mapping[str, str]) -> str | None:
    folder = user_folder(environ, "XDG_STATE_HOME", os.path.join(".local", "state"))
    return None if folder is None else os.path.join(folder, "trusted")


def _hash(key: str, data: bytes) -> str:
    from hashlib import sha256  # loads OpenSSL, and is needed only for a refused variable

    return sha256(os.fsencode(key) + b"\0" + data).hexdigest()


def _is_our_folder(folder: str) -> bool:
    status = os.stat(folder)
    return status.st_uid == own_user() and not status.st_mode & 0o022


def _unwritable(folder: str, error: OSError) -> GpuconfError:
    reason = error.strerror or str(error)
    return GpuconfError(f"{folder} cannot be written: {reason}", hint=f"ls -ld {folder}")
