"""Requirements as wheels write them: what applies here, and which versions satisfy it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.commands.doctor.checks.requirements import parse_requirement, release

ROWS = yaml.safe_load(Path(__file__).with_name("requirements.yaml").read_text(encoding="utf-8"))
TOO_DEEP = "x; " + "(" * 2000


@pytest.mark.parametrize("line", ROWS["judged"])
def test_versions_are_judged_as_pip_does(line: str) -> None:
    """Trailing zeros, local versions and pre-releases count as PEP 440 says."""
    found = parse_requirement(line, python=(3, 11))
    good, bad = ROWS["judged"][line]["good"], ROWS["judged"][line]["bad"]
    assert found is not None
    assert [version for version in (*good, *bad) if found.allows(version)] == good


@pytest.mark.parametrize(("line", "extra"), ROWS["applies"].items())
def test_what_applies(line: str, extra: str | None) -> None:
    """Both sides of `and` and `or` count, and a requirement of an extra names it."""
    found = parse_requirement(line, python=(3, 11))
    assert found is not None
    assert found.extra == extra


@pytest.mark.parametrize("line", [*ROWS["none"], TOO_DEEP])
def test_what_does_not_apply_or_is_malformed_is_none(line: str) -> None:
    """Better silent than wrong."""
    assert parse_requirement(line, python=(3, 11)) is None


def test_the_least_version_and_the_numbers() -> None:
    """What a requirement requests at least, and the release of a version."""
    found = parse_requirement("a<10.0,>=9.3.0.75", python=(3, 11))
    assert found is not None
    assert found.least == "9.3.0.75"
    assert release("2.13.0+cpu") == (2, 13, 0)
    assert release("unknown") == ()
    pinned = parse_requirement("libtpu==0.0.42.*", python=(3, 11))
    assert pinned is not None
    assert pinned.least == "0.0.42"
    twice = parse_requirement("x>=9.3,~=10.1,>=2", python=(3, 11))
    assert twice is not None
    assert twice.least == "10.1"
