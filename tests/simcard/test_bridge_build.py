"""Building the kernel bridge: for the right TensorFlow, once, with errors that say what to do."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from gpuconf.errors import BackendError, GpuconfError, MissingDependencyError, UsageError
from gpuconf.simcard import Card, bridge_for_command
from gpuconf.simcard.bridge import LIBRARY, TRIED_VERSIONS, VARIABLE, build_bridge
from gpuconf.simcard.installed import InstalledTensorFlow, find_tensorflow, python_of

_VERSION = f"{TRIED_VERSIONS[-1]}.0"


@pytest.fixture
def wheel(tmp_path: Path) -> InstalledTensorFlow:
    """What the build looks at in a TensorFlow: headers (which compile nothing) and build facts."""
    folder = tmp_path / "site-packages" / "tensorflow"
    header = folder / "include" / "tensorflow" / "core" / "framework" / "op_kernel.h"
    header.parent.mkdir(parents=True)
    header.write_text("// a header\n")
    facts = folder / "python" / "platform" / "build_info.py"
    facts.parent.mkdir(parents=True)
    facts.write_text("build_info = collections.OrderedDict([('is_cuda_build', True)])\n")
    return InstalledTensorFlow(_VERSION, folder, "/usr/bin/python3")


def _environ(cache: Path, **changes: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache), **changes}


def _compiler(path: Path) -> Path:
    """A compiler that makes what is requested: the last word after -o."""
    lines = ['while [ "$1" != -o ]; do [ -n "$1" ] || exit 0; shift; done', 'echo built > "$2"']
    return _script(path, "#!/bin/sh\n" + "\n".join(lines) + "\n")


def _script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_missing_compiler_is_named_with_what_to_install(
    tmp_path: Path, wheel: InstalledTensorFlow
) -> None:
    """With no C++ compiler on PATH the error names those tried, and the hint is a command."""
    with pytest.raises(MissingDependencyError, match=r"C\+\+ compiler.*clang\+\+") as caught:
        build_bridge(wheel, environ=_environ(tmp_path, PATH=str(tmp_path)))
    assert "apt-get install g++" in str(caught.value.hint)


def test_missing_headers_are_named_with_the_command_that_brings_them(
    tmp_path: Path, wheel: InstalledTensorFlow
) -> None:
    """A TensorFlow without its include folder: the file that lacks, and how to put it back."""
    (wheel.headers / "tensorflow" / "core" / "framework" / "op_kernel.h").unlink()
    with pytest.raises(MissingDependencyError, match=r"op_kernel\.h") as caught:
        build_bridge(wheel, environ=_environ(tmp_path))
    assert f"pip install --force-reinstall --no-deps tensorflow=={_VERSION}" in str(caught.value)


@pytest.mark.parametrize("version", ["1.15.5", "2.14.1", "2.99.0", "2.21.0rc1", "unknown"])
def test_a_version_that_was_not_tried_is_refused(
    tmp_path: Path, wheel: InstalledTensorFlow, version: str
) -> None:
    """TensorFlow's C++ interfaces change without notice: no version is taken on trust."""
    with pytest.raises(BackendError, match=f"has been tested with.*has {version}") as caught:
        build_bridge(wheel._replace(version=version), environ=_environ(tmp_path))
    assert "pip install 'tensorflow==" in str(caught.value.hint)


def test_a_tensorflow_without_gpu_support_is_refused(
    tmp_path: Path, wheel: InstalledTensorFlow
) -> None:
    """tensorflow-cpu has none of the code that a simulated GPU runs."""
    (wheel.folder / "python" / "platform" / "build_info.py").write_text("build_info = {}\n")
    with pytest.raises(BackendError, match="no GPU support"):
        build_bridge(wheel, environ=_environ(tmp_path))


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, wheel: InstalledTensorFlow
) -> None:
    """The error has the folder and the system's words; the hint shows its rights, and a way out."""
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    for cache in (blocked, Path("/proc/gpuconf-cannot-be-here")):
        with pytest.raises(BackendError, match=f"cannot build into the cache {cache}") as caught:
            build_bridge(wheel, environ=_environ(cache))
        assert "ls -ld" in str(caught.value.hint)
        assert "export XDG_CACHE_HOME=" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        ("fatal error: error writing to out.s: No space left on device",
         "No space left on device", "df -h"),
        # Headers of another TensorFlow than they say.
        ("error: no such type", r"could not build [^:]*:\n *error: no such type",
         "other compilers"),
    ],
    ids=["full disk", "compile error"],
)  # fmt: skip
def test_a_failed_build_shows_the_compilers_last_lines(
    words: str, says: str, hint: str, tmp_path: Path, wheel: InstalledTensorFlow
) -> None:
    """A full disk is told from a compile error, and nothing half-built stays."""
    compiler = _script(tmp_path / "c++", f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    cache = tmp_path / "cache"
    with pytest.raises(BackendError, match=says) as caught:
        build_bridge(wheel, environ=_environ(cache, CXX=str(compiler)))
    assert hint in str(caught.value.hint)
    assert list((cache / "gpuconf" / "simcard").iterdir()) == []


def test_it_is_built_once_per_tensorflow_and_told_before(
    tmp_path: Path, wheel: InstalledTensorFlow
) -> None:
    """A second call builds nothing and says nothing; another TensorFlow is another build."""
    environ = _environ(tmp_path / "cache", CXX=str(_compiler(tmp_path / "c++")))
    told: list[str] = []
    first = build_bridge(wheel, environ=environ, progress=told.append)
    assert first.name == LIBRARY
    assert first.read_text() == "built\n"
    assert [path.name for path in first.parent.iterdir()] == [LIBRARY]
    assert build_bridge(wheel, environ=environ, progress=told.append) == first
    assert len(told) == 1
    assert f"TensorFlow {_VERSION}" in told[0]
    first.unlink()  # as cleaners of caches do
    assert build_bridge(wheel, environ=environ, progress=told.append).is_file()
    other = wheel._replace(version=f"{TRIED_VERSIONS[0]}.1")
    assert build_bridge(other, environ=environ, progress=told.append) != first
    assert len(told) == 3


def test_environments_with_the_same_wheel_share_one_bridge(
    tmp_path: Path, wheel: InstalledTensorFlow
) -> None:
    """The wheel is known by its RECORD: another library, or no RECORD, is another build."""
    environ = _environ(tmp_path / "cache", CXX=str(_compiler(tmp_path / "c++")))
    library, script = "tensorflow/libtensorflow_cc.so.2,sha256={},9\n", "../bin/toco,sha256={},9\n"
    records = {
        "first": library.format("a") + script.format("b"),
        "same": script.format("c") + library.format("a"),  # a script names its Python
        "other": library.format("d") + script.format("b"),
        "none": "",
        "none either": "",
    }
    bridges = {}
    for name, record in records.items():
        site = shutil.copytree(wheel.folder.parent, tmp_path / name)
        (site / f"tensorflow-{_VERSION}.dist-info").mkdir()
        (site / f"tensorflow-{_VERSION}.dist-info" / "RECORD").write_text(record)
        copy = wheel._replace(folder=site / "tensorflow")
        bridges[name] = build_bridge(copy, environ=environ)
    assert bridges["same"] == bridges["first"]
    assert len(set(bridges.values())) == len(records) - 1, bridges


def test_the_python_of_a_command_is_found(tmp_path: Path) -> None:
    """Named itself, by the first line of a script, through env; for the rest PATH's python."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    python = _script(bin_folder / "python3.11", "#!/bin/sh\n")
    plain = _script(bin_folder / "python", "#!/bin/sh\n")
    script = _script(bin_folder / "train", f"#!{python}\n")
    through_env = _script(bin_folder / "tune", "#!/usr/bin/env python3.11\n")
    shell = _script(bin_folder / "run.sh", "#!/bin/sh\npython train.py\n")
    trampoline = _script(bin_folder / "tool", f"#!/bin/sh\n'''exec' '{python}' \"$0\" \"$@\"\n")
    environ = {"PATH": f"{bin_folder}:/usr/bin:/bin"}
    assert python_of(["python3.11", "train.py"], environ) == str(python)
    assert python_of([str(script)], environ) == str(python)
    assert python_of([str(through_env)], environ) == str(python)
    assert python_of([str(shell)], environ) == str(plain)
    assert python_of([str(trampoline)], environ) == str(python)
    assert python_of(["env", "A=1", "python3.11", "x.py"], environ) == str(python)
    assert python_of(["timeout", "9", str(python), "x.py"], environ) == str(python)
    assert python_of(["no-such-command"], {"PATH": str(tmp_path)}) == sys.executable


def test_a_python_without_tensorflow_is_said(tmp_path: Path) -> None:
    """No TensorFlow is an error of its own, with what to install, not a failing build."""
    python = _script(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    environ = _environ(tmp_path)
    assert find_tensorflow([str(python)], environ) is None
    with pytest.raises(MissingDependencyError, match="no tensorflow") as caught:
        bridge_for_command([str(python), "train.py"], environ=environ)
    assert "pip install tensorflow" in str(caught.value.hint)


def test_the_card_says_where_the_bridge_is(card: Card, tmp_path: Path) -> None:
    """The environment names the bridge, drops an old one, and never pushes a plugin aside."""
    bridge = tmp_path / LIBRARY
    assert card.environment({}, bridge=bridge)[VARIABLE] == str(bridge)
    assert VARIABLE not in card.environment({VARIABLE: f"/old/{LIBRARY}"})
    with pytest.raises(UsageError, match=r"is /opt/plugin\.so") as caught:
        card.environment({VARIABLE: "/opt/plugin.so"}, bridge=bridge)
    assert isinstance(caught.value, GpuconfError)
    assert caught.value.hint == f"unset {VARIABLE}"
