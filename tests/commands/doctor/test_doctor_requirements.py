"""Requirements as wheels write them: what applies here, and which versions satisfy it."""

from __future__ import annotations

import pytest

from gpuconf.commands.doctor.checks.requirements import parse_requirement, release


@pytest.mark.parametrize(
    ("line", "good", "bad"),
    [
        ("numpy<2.0.0,>=1.23.5", ("1.23.5", "1.26"), ("1.23", "2.0", "2.0.0", "2.1.0")),
        ("numpy (<2.0.0,>=1.23.5)", ("1.26",), ("2.0.0",)),
        ("protobuf!=4.21.0,<5.0.0dev,>=3.20.3", ("4.25.1",), ("4.21.0", "5.0.0", "3.20")),
        ("ml_dtypes~=0.3.1", ("0.3.1", "0.3.2"), ("0.3.0", "0.4.0")),
        ("libtpu==0.0.42.*", ("0.0.42", "0.0.42.1"), ("0.0.43",)),
        ("keras>=3.12.0", ("3.12.0", "3.13.0rc1"), ("3.12.0rc1",)),
        ("torch==2.9.1", ("2.9.1", "2.9.1+cu128"), ("2.9.0+cu128",)),
        ("packaging", ("1", "of no known form"), ()),
    ],
)
def test_versions_are_judged_as_pip_does(
    line: str, good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    """Trailing zeros, local versions and pre-releases count as PEP 440 says."""
    found = parse_requirement(line, python=(3, 11))
    assert found is not None
    assert [version for version in (*good, *bad) if found.allows(version)] == list(good)


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ('nvidia-nccl-cu12==2.16.5; extra == "and-cuda"', "and-cuda"),
        ("nvidia-nccl-cu12 (==2.16.5) ; extra == 'and-cuda'", "and-cuda"),
        ('numpy<2.0.0; python_version <= "3.11"', None),
        ('numpy<2.0.0; sys_platform == "linux" and python_version >= "3.10"', None),
        ('numpy<2.0.0; sys_platform == "win32" or python_version >= "3.10"', None),
        ("""x>=1; (sys_platform != "win32" or python_version < "3.9") and extra == "y\"""", "y"),
        ("x; extra == 'tf' or extra == 'jax'", "tf"),
    ],
)
def test_what_applies(line: str, extra: str | None) -> None:
    """Both sides of `and` and `or` count, and a requirement of an extra names it."""
    found = parse_requirement(line, python=(3, 11))
    assert found is not None
    assert found.extra == extra


@pytest.mark.parametrize(
    "line",
    [
        'numpy>=1.26; python_version >= "3.12"',
        'x; sys_platform == "win32"',
        'x; platform_machine == "no such"',
        '''x; (sys_platform == "win32" or python_version < "3.9") and extra == "y"''',
        "x>=one",
        'x; sys_platform ~= "linux"',
        "x @ https://example.org/x.whl",
        "",
        "x; " + "(" * 2000,
    ],
)
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
