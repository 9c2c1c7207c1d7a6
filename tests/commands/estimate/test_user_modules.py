"""``module:function`` taken apart, and found or not found, without any TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.commands.estimate.targets.user_code import error_in_user_code
from gpuconf.commands.estimate.targets.user_modules import (
    ModelOrigin,
    OwnError,
    attribute_of,
    imported,
    place_of,
)
from gpuconf.errors import GpuconfError, UsageError


def write(path: Path, text: str = "") -> Path:
    """A file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_modules_are_in_the_folder() -> None:
    """By dots, with a function or a path of names; a call's brackets are a slip."""
    here = Path("/here")
    assert place_of("models:make", here) == ModelOrigin("models", "make", here)
    assert place_of("pkg.models:Nets.small", here) == ModelOrigin("pkg.models", "Nets.small", here)
    assert place_of("models:make()", here) == ModelOrigin("models", "make", here)


def test_files_are_modules_too(tmp_path: Path) -> None:
    """With or without .py; one that is in a package is imported as a part of it."""
    alone = write(tmp_path / "src" / "train-v2.py")
    assert place_of(f"{alone}:make", Path("/")) == ModelOrigin(
        "train-v2", "make", alone.parent, alone
    )
    assert place_of(f"{alone}"[:-3] + ":make", Path("/")).file == alone
    write(tmp_path / "pkg" / "__init__.py")
    write(tmp_path / "pkg" / "sub" / "__init__.py")
    inner = write(tmp_path / "pkg" / "sub" / "nets.py")
    assert place_of(f"{inner}:make", Path("/")) == ModelOrigin("pkg.sub.nets", "make", tmp_path)


@pytest.mark.parametrize(
    "target", ["models:", ":make", "a b:make", "models:1", "models.:make", "nosuch/a.py:make",
               "nosuch/a:make", "models:make:again"],
)  # fmt: skip
def test_what_is_neither(target: str) -> None:
    """Usage, with an example or the folder to look into."""
    with pytest.raises(UsageError) as caught:
        place_of(target, Path("/here"))
    assert caught.value.hint


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    """The module's own functions are named; what it imported is not offered."""
    file = write(
        tmp_path / "nets_a.py", "from os.path import join\ndef build(): ...\nclass Net: ..."
    )
    place = place_of(f"{file}:joined", tmp_path)
    with pytest.raises(UsageError, match=r"hint: available: build, Net$"):
        attribute_of(imported(place), place)
    place = place_of(f"{write(tmp_path / 'nets_b.py')}:make", tmp_path)
    with pytest.raises(UsageError, match="hint: write one: def make"):
        attribute_of(imported(place), place)


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    """It says how to name a file; of a package that is none, too."""
    for name in ("nosuchmodule", "nosuchpackage.nets", "json.decoder.nets", "this_file.x.y"):
        with pytest.raises(UsageError, match=r"there is no module .*\n.*estimate path/to/file.py"):
            imported(ModelOrigin(name, "make", tmp_path))


def test_a_module_that_lacks_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user's module cannot import is the user's error, not a module that is missing."""
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "lacking_one.py", "import nosuchmodule")
    write(tmp_path / "lacking_two" / "__init__.py", "import lacking_two.inner")
    for name in ("lacking_one", "lacking_two.nets"):
        with pytest.raises(OwnError):
            imported(ModelOrigin(name, "make", tmp_path))


def raised(folder: Path, text: str) -> tuple[BaseException, ModelOrigin]:
    """What a file with this text raises when it is imported."""
    file = write(folder / "own_code.py", text)
    place = place_of(f"{file}:make", folder)
    with pytest.raises(OwnError) as caught:
        imported(place)
    return caught.value.error, place


def test_the_users_own_error_is_told_with_their_lines(tmp_path: Path) -> None:
    """Not ours, not a library's; as Python writes them; not a bug, so exit code 1."""
    text = "import json\ndef read():\n    return json.loads('{')\nread()\n"
    error, place = raised(tmp_path, text)
    told = error_in_user_code("own_code.py:make", error, place)
    assert type(told) is GpuconfError
    assert told.exit_code == 1
    assert told.message.splitlines() == [
        "own_code.py:make failed in code outside gpuconf:",
        '  File "own_code.py", line 4, in <module>',
        "    read()",
        '  File "own_code.py", line 3, in read',
        "    return json.loads('{')",
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    ]
    assert "runpy" in (told.hint or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def make(:", "SyntaxError: "),
        ("import sys; sys.exit(2)", "ends the process"),
        ("raise SystemExit", "ends the process"),
        ("import nosuchmodule", "No module named 'nosuchmodule'"),
        ("raise KeyError('x' * 9000)", "x …"),
    ],
)
def test_however_it_fails(tmp_path: Path, text: str, said: str) -> None:
    """It is the user's; nothing is shown of how it was imported."""
    error, place = raised(tmp_path, text)
    told = error_in_user_code("own_code.py:make", error, place)
    assert said in told.message
    assert len(told.message) < 2500
    assert "importlib" not in told.message
    assert told.hint
