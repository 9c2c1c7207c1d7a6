"""`gpuconf.patterns`: as `re`, but later."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gpuconf import patterns
from gpuconf.patterns import Pattern


@pytest.mark.parametrize("text", ["", "12", " 12", "12 b", "b\n12"])
@pytest.mark.parametrize("method", ["match", "fullmatch", "search"])
def test_it_finds_what_re_finds(method: str, text: str) -> None:
    """Each method is re's."""
    expected = getattr(re.compile("([0-9]+)"), method)(text)
    found = getattr(Pattern("([0-9]+)"), method)(text)
    assert (found and (found[1], found.span())) == (expected and (expected[1], expected.span()))


def test_its_flags() -> None:
    """Case and lines count unless it is said that they do not."""
    assert Pattern("a").match("A") is None
    assert Pattern("a", ignore_case=True).match("A")
    assert Pattern("^b").search("a\nb") is None
    assert Pattern("^b", multiline=True).search("a\nb")


def test_re_is_imported_when_one_is_used() -> None:
    """Declared patterns cost nothing."""
    code = (
        "import sys; from gpuconf.patterns import Pattern; p = Pattern('a'); {}; "
        "print('re' in sys.modules)"
    )
    for more, is_loaded in (("pass", "False"), ("p.match('a')", "True")):
        command = [sys.executable, "-S", "-c", code.format(more)]
        environ = {"PYTHONPATH": str(patterns.__file__).rpartition("/gpuconf/")[0]}
        done = subprocess.run(
            command, env=environ, check=True, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == is_loaded
