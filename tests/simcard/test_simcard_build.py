"""Building the stand-in libraries: once, whole, and with an error that says what to do."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuconf.errors import BackendError, MissingDependencyError
from gpuconf.simcard.compiling import build_once, cache_folder, find_compiler
from gpuconf.simcard.libraries import LIBRARIES, NATIVE, build_libraries

pytestmark = pytest.mark.slow  # starts many programs

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler named cc"
)


def _environ(cache: Path, **changes: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache), **changes}


def test_a_missing_compiler_is_named_with_what_to_install(tmp_path: Path) -> None:
    """With no compiler on PATH the error names those tried, and the hint is a command."""
    with pytest.raises(MissingDependencyError, match="cc, gcc and clang") as caught:
        build_libraries(environ=_environ(tmp_path, PATH=str(tmp_path)))
    assert caught.value.hint is not None
    assert "apt-get install gcc" in caught.value.hint


def test_a_compiler_named_in_cc_that_is_not_there_is_said(tmp_path: Path) -> None:
    """$CC is never passed over in favor of another compiler."""
    with pytest.raises(MissingDependencyError, match=r"\$CC is 'no-such-cc'"):
        build_libraries(environ=_environ(tmp_path, CC="no-such-cc"))


def test_cc_may_hold_options(tmp_path: Path) -> None:
    """$CC is a command, as make reads it."""
    compiler = tmp_path / "my-cc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    found = find_compiler({"CC": "my-cc -m64", "PATH": str(tmp_path)})
    assert found == (str(compiler), "-m64")


def test_other_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated GPU is shared libraries and LD_LIBRARY_PATH: Linux only, and it says so."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BackendError, match="needs Linux, but this is darwin"):
        build_libraries(environ=_environ(tmp_path))


def test_the_cache_folder_follows_the_environment() -> None:
    """$XDG_CACHE_HOME, else ~/.cache."""
    assert cache_folder({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/gpuconf/simcard")
    for none in ("", "relative/cache"):
        assert cache_folder({"XDG_CACHE_HOME": none, "HOME": "/h"}) == Path(
            "/h/.cache/gpuconf/simcard"
        )


@needs_compiler
@pytest.mark.slow
def test_a_build_is_whole_reused_and_free_of_warnings(tmp_path: Path) -> None:
    """Every library is built, with warnings as errors; a second build touches nothing."""
    environ = _environ(tmp_path, CC="cc -Werror")
    folder = build_libraries(environ=environ)
    assert {path.name for path in folder.iterdir()} == {each.soname for each in LIBRARIES}
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert build_libraries(environ=environ) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert [path.name for path in cache_folder(environ).iterdir()] == [folder.name]


@needs_compiler
@pytest.mark.nightly
def test_another_source_is_another_build(tmp_path: Path) -> None:
    """A changed source never uses what was built from the old one."""
    sources = shutil.copytree(NATIVE, tmp_path / "native")
    environ = _environ(tmp_path)
    before = build_libraries(environ=environ, sources=sources)
    with open(sources / "card.h", "a") as header:
        header.write("/* changed */\n")
    assert build_libraries(environ=environ, sources=sources) != before


@needs_compiler
def test_sonames_are_those_asked_for(libraries: Path) -> None:
    """The dynamic linker knows each library by the name that TensorFlow requests."""
    for library in LIBRARIES:
        assert library.soname.encode() + b"\0" in (libraries / library.soname).read_bytes()


def test_what_two_build_at_the_same_time_is_built_once(tmp_path: Path) -> None:
    """The second waits for the first: the kernel bridge takes minutes of two processors."""
    builds: list[Path] = []

    def build(made: Path) -> None:
        builds.append(made)
        time.sleep(0.3)
        (made / "library").touch()

    with ThreadPoolExecutor() as pool:
        folders = list(
            pool.map(lambda _: build_once(tmp_path / "new", ["library"], build), range(3))
        )
    assert (set(folders), len(builds)) == ({tmp_path / "new"}, 1)
