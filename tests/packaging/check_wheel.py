"""Build sdist and wheel, check what is in them, and try the wheel elsewhere: `make wheel`.

With ``--keep FOLDER`` both stay there, as a release uploads them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.packaging.index_page import dead_links
from tests.packaging.try_wheel import CleanEnvironment, try_out

ROOT = Path(__file__).resolve().parents[2]
ALLOWED_SUFFIXES = {".py", ".pyi", ".typed", ".yaml", ".json", ".c", ".cc", ".h", ".map", ".txt",
                    ".rc", ".md"}  # fmt: skip
DOTFILES = {"gpuconf/commands/run/startup/zsh/.zshenv"}
TYPED_USES = Path(__file__).with_name("typed_uses.py")
# What people who package gpuconf look for, next to the package.
IN_SDIST = {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "Makefile"}


def build(into: Path) -> tuple[Path, Path]:
    """Build an sdist from this checkout and a wheel from the sdist; return their paths."""
    command = [sys.executable, "-m", "build", "--outdir", str(into), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = into.glob("*.tar.gz"), into.glob("*.whl")
    return sdist, wheel


def expected_files() -> dict[str, Path]:
    """What git tracks under gpuconf/ and configs/, and the pages, by their names in the wheel."""
    listing = subprocess.run(
        ["git", "ls-files", "gpuconf", "configs", "docs/*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return {
        f"gpuconf/{name}" if name.startswith(("configs/", "docs/")) else name: ROOT / name
        for name in listing
        if (ROOT / name).exists()
    }


def check_contents(wheel: Path) -> None:
    """The wheel holds exactly the tracked files, to the byte, though an sdist lies between."""
    archive, expected = zipfile.ZipFile(wheel), expected_files()
    names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == set(expected), f"only in one: {sorted(names ^ set(expected))}"
    differing = [name for name, file in expected.items() if archive.read(name) != file.read_bytes()]
    assert not differing, differing
    odd = {name for name in names if Path(name).suffix not in ALLOWED_SUFFIXES} - DOTFILES
    assert not odd, odd
    metadata = [n for n in archive.namelist() if ".dist-info/" in n]
    assert any(name.endswith("licenses/LICENSE") for name in metadata), metadata
    print(f"{wheel.name}: {len(names)} files, as tracked")


def check_sdist(sdist: Path) -> None:
    """The sdist holds the tests too, and the pages at the top."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= IN_SDIST, IN_SDIST - names
    assert {"tests/conftest.py", "docs/design.md", "benchmarks/timing.py"} <= names
    print(f"{sdist.name}: {len(names)} files")


def check_for_index(sdist: Path, wheel: Path) -> None:
    """An index takes both, and their page there has no link that leads nowhere."""
    twine = [sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)]
    subprocess.run(twine, check=True)
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    dead = dead_links(zipfile.ZipFile(wheel).read(metadata).decode())
    assert not dead, f"links that lead nowhere on the index: {dead}"


def check_types(clean: CleanEnvironment) -> None:
    """The installed wheel has types, and they are those that typed_uses.py relies on."""
    copy = clean.folder / TYPED_USES.name  # away from the checkout, whose gpuconf would be read
    copy.write_text(TYPED_USES.read_text(encoding="utf-8"), encoding="utf-8")
    options = ("--strict", "--config-file=", "--python-executable", clean.python)
    print("types:", clean.run(sys.executable, "-m", "mypy", *options, copy), end="")


def check(folder: Path) -> None:
    """Build into ``folder``, and make every check."""
    sdist, wheel = build(folder)
    check_contents(wheel)
    check_sdist(sdist)
    check_for_index(sdist, wheel)
    with tempfile.TemporaryDirectory() as temporary:
        clean = CleanEnvironment(Path(temporary), wheel)
        print("the wheel works:", try_out(clean))
        check_types(clean)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="an empty folder")
    wanted = parser.parse_args().keep
    if wanted is not None:
        check(wanted.resolve())
    else:
        with tempfile.TemporaryDirectory() as made:
            check(Path(made))
