"""Finds compilers, and caches what they build: complete builds only, with helpful errors."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gpuconf.errors import BackendError, MissingDependencyError

_TIMEOUT_S = 600
_LINES_SHOWN = 12
_ROOM = "10 MB"


class Language(NamedTuple):
    """A language's compilers: the variable that names one, else the names to try."""

    name: str
    variable: str
    compilers: tuple[str, ...]
    packages: str


C = Language("C", "CC", ("cc", "gcc", "clang"), "gcc libc6-dev")
CXX = Language("C++", "CXX", ("c++", "g++", "clang++"), "g++")


def check_platform() -> None:
    """Raise BackendError on a platform without simulated GPUs."""
    if not sys.platform.startswith("linux"):
        raise BackendError(
            f"a simulated GPU needs Linux, but this is {sys.platform}",
            hint="run it in a Linux container or under WSL2",
        )


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the cache folder, under ``$XDG_CACHE_HOME`` or ``~/.cache``.

    A relative ``XDG_CACHE_HOME`` is ignored, as the XDG specification requires.
    """
    base = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
    return Path(base) / "gpuconf" / "simcard"


def find_compiler(environ: Mapping[str, str], language: Language = C) -> tuple[str, ...]:
    """Return the compiler as the start of a command: the one in its variable, else the first found.

    Raises MissingDependencyError if no compiler is found. A compiler named in the variable is never
    replaced by another.
    """
    named = shlex.split(environ.get(language.variable, ""))
    for words in [named] if named else [[name] for name in language.compilers]:
        path = shutil.which(words[0], path=environ.get("PATH"))
        if path is not None:
            return (path, *words[1:])
    *most, last = language.compilers
    tried = (
        f"${language.variable} is {environ[language.variable]!r}, which is not on PATH"
        if named
        else f"{', '.join(most)} and {last} are not on PATH"
    )
    raise MissingDependencyError(
        f"a simulated GPU is built with a {language.name} compiler, but none was found ({tried})",
        hint=f"apt-get install {language.packages} (or your system's {language.name} compiler), "
        f"or set {language.variable}",
    )


def compiler_version(compiler: tuple[str, ...]) -> str:
    """Return the compiler's version text, used in the names of builds."""
    return _run((*compiler, "--version"), Path.cwd(), os.environ).stdout


def build_once(folder: Path, names: Collection[str], build: Callable[[Path], None]) -> Path:
    """Return ``folder``; if it lacks ``names``, build it by calling ``build`` with an empty folder.

    The build runs next to the final folder and is renamed, so that an incomplete folder is never
    seen.  A second process waits for the first; without locks (on some network file systems) both
    build, and the later one discards its work.  A folder from which a file was removed (by a cache
    cleaner) is rebuilt.  Raises BackendError if the cache cannot be written.
    """
    if is_built(folder, names):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (
            _lock(folder.parent),
            tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch,
        ):
            if is_built(folder, names):
                return folder
            made = Path(scratch) / "made"
            made.mkdir()
            build(made)
            if folder.is_dir() and not is_built(folder, names):
                folder.rename(Path(scratch) / "incomplete")
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was faster, with the same result
                    raise
    except OSError as error:
        raise _cache_error(folder.parent, error) from error
    return folder


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    import fcntl  # not on Windows, where this file only says so

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_built(folder: Path, names: Collection[str]) -> bool:
    """Whether the folder has all the files of a build."""
    return all((folder / name).is_file() for name in names)


def compile_all(commands: Iterable[tuple[str, ...]], folder: Path) -> None:
    """Run compilers in ``folder``, as many in parallel as there are processors.

    Their temporary files go there too, so that only one place needs free space. Raises BackendError
    with the last lines of output from the first compiler that fails.
    """
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    environ = {**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C"}
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for command, done in pool.map(
            lambda words: (words, _run(words, folder, environ)), commands
        ):
            if done.returncode != 0:
                raise _compiler_error(command, done, folder)
    shutil.rmtree(scratch)


def _run(
    command: tuple[str, ...], folder: Path, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(
            f"the compiler {command[0]} could not be run: {error}",
            hint=f"set CC and CXX to compilers that work, or try: {command[0]} --version",
        ) from error


def _compiler_error(
    command: tuple[str, ...], done: subprocess.CompletedProcess[str], folder: Path
) -> BackendError:
    if os.strerror(errno.ENOSPC) in done.stderr:
        return _cache_error(folder.parent.parent, OSError(errno.ENOSPC, ""))
    lines = done.stderr.rstrip().splitlines()[-_LINES_SHOWN:]
    shown = "\n".join(f"  {line}" for line in lines) or f"  (exit code {done.returncode})"
    output = command[command.index("-o") + 1] if "-o" in command else "its output"
    return BackendError(
        f"{command[0]} could not build {output}:\n{shown}",
        hint="set CC and CXX to other compilers, or report this with the lines above",
    )


def _cache_error(folder: Path, error: OSError) -> BackendError:
    """Return the system's error for the cache, with a hint."""
    said = os.strerror(error.errno) if error.errno else str(error)
    place = shlex.quote(str(_existing(folder)))
    look = "df -h" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "ls -ld"
    return BackendError(
        f"cannot build into the cache {folder}: {said}",
        hint=f"export XDG_CACHE_HOME=FOLDER, a writable folder with {_ROOM} free ({look} {place} "
        "shows the current folder)",
    )


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent."""
    return next((place for place in (folder, *folder.parents) if place.exists()), folder)
