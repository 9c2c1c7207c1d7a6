"""Requirements as wheels write them, against pip's own judgement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement as PipsRequirement

from gpuconf.doctor.checks.requirements import parse_requirement, release

# Lines of METADATA from TensorFlow 2.15 to 2.21, tf_keras, jax and torch.
LINES = (
    "numpy<2.0.0,>=1.23.5",
    "numpy (<2.0.0,>=1.23.5)",
    "protobuf!=4.21.0,!=4.21.1,<5.0.0dev,>=3.20.3",
    "ml-dtypes~=0.3.1",
    "ml_dtypes (~=0.3.1)",
    "libtpu==0.0.42.*",
    "gast!=0.5.0,>=0.2.1",
    "keras>=3.12.0",
    "nvidia-cudnn-cu12==8.9.4.25",
    "jax-cuda12-plugin[with-cuda]<=0.10.2,>=0.10.2",
    "packaging",
)
VERSIONS = (
    *("0.3.0", "0.3.1", "0.3.2", "0.4.0", "0.5.0", "0.10.2", "0.0.42.1", "0.0.43", "1.23.5"),
    *("1.26", "2.0.0", "2.0", "2.1.0", "3.12.0", "3.20.3", "4.21.0", "4.25.1", "5.0.0", "7.36.2"),
    *("8.9.4.25", "8.9.4", "2.13.0+cpu", "10.0"),
)


@pytest.mark.parametrize("line", LINES)
def test_versions_are_judged_as_pip_does(line: str) -> None:
    """Every version that wheels have, against the package that pip uses."""
    ours = parse_requirement(line, python=(3, 11))
    theirs = PipsRequirement(line)
    assert ours is not None
    assert ours.name == theirs.name.replace("_", "-")
    for version in VERSIONS:
        assert ours.allows(version) == theirs.specifier.contains(version, prereleases=True), version


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.sampled_from(LINES))
def test_any_release_is_judged_as_pip_does(numbers: list[int], line: str) -> None:
    """Also versions nobody has made."""
    version = ".".join(map(str, numbers))
    ours = parse_requirement(line, python=(3, 11))
    assert ours is not None
    assert ours.allows(version) == PipsRequirement(line).specifier.contains(version)


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ('nvidia-nccl-cu12==2.16.5; extra == "and-cuda"', "and-cuda"),
        ("nvidia-nccl-cu12 (==2.16.5) ; extra == 'and-cuda'", "and-cuda"),
        ('numpy<2.0.0; python_version <= "3.11"', None),
        ('numpy<2.0.0; sys_platform == "linux" and python_version >= "3.10"', None),
    ],
)
def test_what_applies(line: str, extra: str | None) -> None:
    """An extra is told; markers that hold are passed."""
    found = parse_requirement(line, python=(3, 11))
    assert found is not None
    assert found.extra == extra


@pytest.mark.parametrize(
    "line",
    [
        'numpy>=1.26; python_version >= "3.12"',
        'x; sys_platform == "win32"',
        'x; platform_machine == "arm64"',
        '''x>=1; (sys_platform != "win32" or python_version < "3.12") and extra == "y"''',
        "x @ https://example.org/x.whl",
        "",
    ],
)
def test_what_does_not_apply_or_is_not_understood_is_none(line: str) -> None:
    """Better silent than wrong."""
    assert parse_requirement(line, python=(3, 11)) is None


def test_the_least_version_and_the_numbers() -> None:
    """What a requirement asks for at least, and the release of a version."""
    found = parse_requirement("a<10.0,>=9.3.0.75", python=(3, 11))
    assert found is not None
    assert found.least == "9.3.0.75"
    assert release("2.13.0+cpu") == (2, 13, 0)
    assert release("unknown") == ()
