"""What a release needs: changelog, version, metadata, workflows and citation agree."""

from __future__ import annotations

import re
import sys
from datetime import date
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from gpuconf import __version__
from tests.packaging.changelog import KINDS, Section, sections
from tests.packaging.check_pythons import PYTHONS
from tests.packaging.check_release import NotReadyError, notes_of
from tests.packaging.index_page import dead_addresses

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
DAY = date(2026, 11, 25)


def _toml() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def _workflow(name: str) -> dict[Any, Any]:
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
    found: dict[Any, Any] = yaml.safe_load(text)
    return found


def test_the_changelog_keeps_its_form() -> None:
    """Unreleased comes first, then versions from the newest, each kind at most once in each."""
    names = [section.name for section in CHANGELOG]
    assert names[0] == "Unreleased" or names[0] == __version__
    versions = [Version(name) for name in names if name != "Unreleased"]
    assert versions == sorted(set(versions), reverse=True)
    for section in CHANGELOG:
        assert set(section.kinds) <= set(KINDS), section.name
        assert len(section.kinds) == len(set(section.kinds)), section.name
        assert (section.date is None) == (section.name == "Unreleased"), section.name


def test_a_heading_that_is_none_is_refused() -> None:
    """A version without its three numbers would be passed over in silence."""
    with pytest.raises(ValueError, match="neither Unreleased nor a version"):
        sections("# Changelog\n\n## 0.2\n")


@pytest.mark.parametrize(
    ("tag", "changelog", "why"),
    [
        ("v0.2.0", [Section("0.1.0", DAY, "x")], "gpuconf/version.py says 0.1.0"),
        ("v0.1.0", [Section("0.0.9", DAY, "x")], "no section 0.1.0"),
        ("v0.1.0", [Section("0.1.0", None, "x")], "has no date"),
        ("v0.1.0", [Section("Unreleased", None, "- x"), Section("0.1.0", DAY, "y")], "above 0.1.0"),
    ],
)
def test_a_tag_that_may_not_become_a_release(tag: str, changelog: list[Section], why: str) -> None:
    """Tag, version and changelog say the same, or the release stops."""
    with pytest.raises(NotReadyError, match=re.escape(why)):
        notes_of(tag, "0.1.0", changelog)


@pytest.mark.parametrize("version", ["0.1.0", "1.0.0rc1"])
def test_the_notes_are_the_section(version: str) -> None:
    """Of a release and of a candidate, whose tags start the workflow.

    An empty Unreleased above the section is not an obstacle.
    """
    text = f"# Changelog\n\n## Unreleased\n\n## {version} - 2026-11-25\n\n### Added\n\n- x\n"
    assert notes_of(f"v{version}", version, sections(text)) == "### Added\n\n- x"
    (pattern,) = _workflow("release")[True]["push"]["tags"]  # YAML 1.1 reads the key `on` as True
    assert fnmatch(f"v{version}", pattern)


def test_every_list_of_pythons_is_the_same() -> None:
    """Classifiers, the workflow's wheels, the badge and requires-python name what is tried."""
    project = _toml()["project"]
    prefix = "Programming Language :: Python :: 3."
    named = [line for line in project["classifiers"] if line.startswith(prefix)]
    assert named == [f"Programming Language :: Python :: {version}" for version in PYTHONS]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    wheels = _workflow("test")["jobs"]["wheel"]["strategy"]["matrix"]["python"]
    assert tuple(wheels) == PYTHONS
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"![Python {PYTHONS[0]} to {PYTHONS[-1]}]" in readme


def test_the_citation_is_of_this_version() -> None:
    """CITATION.cff changes with gpuconf/version.py."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == __version__
    assert cited["license"] == _toml()["project"]["license"]


def test_the_conda_recipe_needs_what_the_wheel_needs() -> None:
    """Version, dependencies and the oldest Python of the recipe are those of pyproject.toml."""
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    recipe, project = yaml.safe_load(text), _toml()["project"]
    assert recipe["context"]["version"] == __version__
    assert f'"{recipe["context"]["python_min"]}"' == f'"{PYTHONS[0]}"'
    run = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    assert run - {"python>=${{python_min}}"} == set(project["dependencies"])
    host = {line.replace(" ", "") for line in recipe["requirements"]["host"]}
    assert host >= set(_toml()["build-system"]["requires"])


def test_the_trusted_publisher_alone_may_ask_for_an_identity() -> None:
    """Workflows may read; what writes or signs is one job each, and no password is kept."""
    for file in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, file.name
        assert "secrets." not in file.read_text(encoding="utf-8"), file.name
        writing = {
            name: job["permissions"]
            for name, job in workflow["jobs"].items()
            if "permissions" in job
        }
        expected: dict[str, dict[str, dict[str, str]]] = {
            "docs": {"publish": {"pages": "write", "id-token": "write"}},
            "release": {"publish": {"id-token": "write"}, "announce": {"contents": "write"}},
        }
        assert writing == expected.get(file.stem, {}), file.name


def test_nothing_is_published_that_has_not_been_checked() -> None:
    """The upload waits for the tests, and these for the check of tag, version and changelog."""
    jobs = _workflow("release")["jobs"]
    assert set(jobs["publish"]["needs"]) == {"test", "build"}
    assert jobs["test"]["needs"] == jobs["build"]["needs"] == "check"
    assert jobs["announce"]["needs"] == "publish"


def test_dead_links_are_found() -> None:
    """Relative ones, and places that the page does not have."""
    page = '<h2 id="user-content-a"></h2><a href="#user-content-a"></a><a href="#user-content-b">'
    page += '</a><img src="docs/x.svg"><a href="https://keras.io"></a><a href="LICENSE"></a>'
    assert dead_addresses(page) == ["#user-content-b", "docs/x.svg", "LICENSE"]
