"""The shipped profiles as values say what their files say, and only for those files."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.profile import load_profile
from gpuconf.profile.building import build
from gpuconf.profile.files import fingerprint, shipped_folder
from gpuconf.profile.ready_made import PROFILES
from gpuconf.profile.search import Location

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(Path(shipped_folder()).glob("*.yaml"))
# It extends another, so two files decide what it says.
READ = {"virtual-pair"}
PROGRAM = """
import sys
from gpuconf.profile import load_profile
profile = load_profile("cpu-only", environ={})
print(profile.description, "|", profile.source, "|", "gpuconf.profile.document" in sys.modules)
"""


def test_the_module_is_as_generated() -> None:
    """After a change of a shipped profile: `make generated`."""
    path = ROOT / "docs" / "ready_made.py"
    spec = importlib.util.spec_from_file_location("ready_made_text", path)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (ROOT / "gpuconf" / "profile" / "ready_made.py").read_text(encoding="utf-8")
    assert written == generator.module_text(ROOT / "configs")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_what_the_file_says(file: Path) -> None:
    """Read from YAML, each field is the same, where it came from too."""
    location = Location(file.stem, str(file), "shipped")
    is_ready = fingerprint(file.read_bytes()) in PROFILES
    assert is_ready == (file.stem not in READ)
    if is_ready:
        from_yaml, problems = build(location, (), {})
        assert problems == []
        assert from_yaml is not None
        assert load_profile(file.stem, environ={})._asdict() == from_yaml._asdict()


def shipped_copy(folder: Path) -> Path:
    """The package with its profiles, elsewhere; returns the file of cpu-only there."""
    ignored = shutil.ignore_patterns("__pycache__", "simcard", "injected")
    shutil.copytree(ROOT / "gpuconf", folder / "gpuconf", ignore=ignored)
    shutil.copytree(shipped_folder(), folder / "gpuconf" / "configs", dirs_exist_ok=True)
    return folder / "gpuconf" / "configs" / "cpu-only.yaml"


def loaded(folder: Path) -> list[str]:
    """Description, source and whether YAML was read, in a program that finds that package."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [part.strip() for part in done.stdout.split("|")]


def test_a_file_that_was_changed_is_read(tmp_path: Path) -> None:
    """What an administrator writes into a shipped profile holds, also with as many characters."""
    file = shipped_copy(tmp_path)
    text = file.read_text(encoding="utf-8")
    assert loaded(tmp_path) == ["No GPU at all, for tests beside a training", str(file), "False"]
    file.write_text(text.replace("No GPU at all", "No gpu at all"), encoding="utf-8")
    assert loaded(tmp_path) == ["No gpu at all, for tests beside a training", str(file), "True"]


def test_an_override_reads_the_file() -> None:
    """Overrides are laid over what is written, with its places for messages."""
    profile = load_profile("cpu-only", overrides={"description": "mine"}, environ={})
    assert (profile.description, profile.gpus.kind) == ("mine", "none")
