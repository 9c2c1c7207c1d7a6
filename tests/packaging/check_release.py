"""Whether a tag may become a release; prints its part of the changelog, the release's notes.

``python -m tests.packaging.check_release v1.0.0rc1``
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpuconf import __version__
from tests.packaging.changelog import Section, sections

ROOT = Path(__file__).resolve().parents[2]


class NotReadyError(Exception):
    """What has to be done before the release, in a sentence."""


def notes_of(tag: str, version: str, changelog: list[Section]) -> str:
    """The notes of the release ``tag``; NotReadyError where tag, version and changelog differ."""
    if tag != f"v{version}":
        raise NotReadyError(f"the tag is {tag}, but gpuconf/version.py says {version}")
    found = [section for section in changelog if section.name == version]
    if not found:
        raise NotReadyError(f"CHANGELOG.md has no section {version}")
    if found[0].date is None:
        raise NotReadyError(f"the section {version} of CHANGELOG.md has no date")
    if any(section.name == "Unreleased" and section.text for section in changelog):
        raise NotReadyError(f"CHANGELOG.md still lists changes above {version} as Unreleased")
    return found[0].text


if __name__ == "__main__":
    changelog_text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        print(notes_of(sys.argv[1], __version__, sections(changelog_text)))
    except NotReadyError as error:
        sys.exit(f"not ready: {error}; RELEASING.md says how a release is made")
