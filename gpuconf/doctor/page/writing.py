"""The page into a file: refused early where that cannot work, and whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

from gpuconf.doctor.report import Report
from gpuconf.errors import UsageError

_SUFFIXES = (".html", ".htm")


def check_page_path(path: str) -> None:
    """Raise before anything runs if a page could not be written to ``path``.

    UsageError for another suffix, a folder that is not there or not writable, a path that is no
    ordinary file, and without Jinja2: exit code 1 would say that a check failed.
    """
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"--report {path}: the page is HTML, by the name's ending",
            hint=f"gpuconf doctor --report {target.stem or 'doctor'}.html",
        )
    folder = target.parent
    if not folder.is_dir():
        raise UsageError(f"--report {path}: there is no folder {folder}", hint=f"mkdir -p {folder}")
    if target.exists() and not target.is_file():
        raise UsageError(f"--report {path}: this is no ordinary file", hint=f"ls -ld {path}")
    if not os.access(folder, os.W_OK):
        raise UsageError(
            f"--report {path}: nothing may be written to the folder {folder}",
            hint="gpuconf doctor --report /tmp/doctor.html",
        )
    if importlib.util.find_spec("jinja2") is None:
        raise UsageError(
            "--report writes the page with Jinja2, which is not installed",
            # Not gpuconf[report]: on a package index that name may be a stranger's.
            hint="pip install jinja2",
        )


def write_page(report: Report, path: str) -> None:
    """Write ``report``, which must be redacted already, as one HTML page to ``path``.

    The file is replaced whole or left as it was.  Raises what :func:`check_page_path` raises, and
    UsageError where the disk is full.
    """
    check_page_path(path)
    from gpuconf.doctor.page.view import page_text

    # Names of processes may hold bytes that are no text, and those no encoding takes.
    content = page_text(report).encode("utf-8", "backslashreplace")
    # A link stays a link, to the new page.
    target = os.path.realpath(path)
    unfinished = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=os.path.dirname(target), prefix=".gpuconf-", suffix=".html", delete=False
        ) as file:
            unfinished = file.name
            file.write(content)
        os.chmod(unfinished, _mode(target))
        os.replace(unfinished, target)
    except OSError as error:
        if unfinished is not None and os.path.exists(unfinished):
            os.unlink(unfinished)
        folder = os.path.dirname(target)
        raise UsageError(
            f"--report {path}: it could not be written: {error.strerror}", hint=f"df -h {folder}"
        ) from None


def _mode(target: str) -> int:
    """The permissions that the file has, or that a new one would get: a temporary one is 0600."""
    try:
        return os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
