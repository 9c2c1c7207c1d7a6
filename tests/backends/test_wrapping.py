"""Functions of a framework that are called through ours."""

from __future__ import annotations

from types import SimpleNamespace

from gpuconf.backends.wrapping import is_watched, run_before


def test_a_function_knows_that_it_is_wrapped() -> None:
    """So that it is wrapped once; its name stays, and what is before it comes first."""

    def start(word: str) -> str:
        return f"{calls} {word}"

    owner, calls = SimpleNamespace(start=start), list[str]()
    assert not is_watched(owner, "start")
    run_before(owner, "start", lambda: calls.append("before"))
    assert is_watched(owner, "start")
    assert (owner.start.__name__, owner.start("now")) == ("start", "['before'] now")
