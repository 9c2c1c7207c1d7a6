"""Patterns that are tried only where one of their words stands find what they found before."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.support.failures.worded import WordedPattern, words_of
from tests.support.failures.test_patterns_are_safe import modules


def worded_in(value: object) -> Iterator[WordedPattern]:
    """The patterns with words in a module's value."""
    if isinstance(value, WordedPattern):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from worded_in(each)


WORDED = {
    worded.pattern: worded
    for module in modules()
    for value in vars(module).values()
    for worded in worded_in(value)
}


def test_there_are_many() -> None:
    """Those of a log's software, its program and its outcome; all of them have words."""
    assert len(WORDED) > 35
    assert [pattern.pattern for pattern in WORDED if not words_of(pattern)] == []


@pytest.mark.slow
@given(st.data())
def test_each_match_has_a_word(data: st.DataObject) -> None:
    """Texts made from each pattern itself hold one of its words."""
    for pattern in WORDED:
        text, words = data.draw(st.from_regex(pattern)), words_of(pattern)
        assert any(word in text.casefold() for word in words), (pattern, text, words)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("ab|cd", {"ab", "cd"}),
        ("xGPU(?:s|es)? [Oo]ut", {"xgpu"}),
        ("(?:train|retrain)ing", {"train"}),
        ("(?:in|out)going", {"going"}),
        ("loss.*(?:nan|inf)ity", {"loss"}),
        ("a|bc", set()),
        ("(?:memory)?", set()),
        ("(?:memory)+", {"memory"}),
        ("(?!memory)x", set()),
        ("train|train_step|step", {"train", "step"}),
    ],
)
def test_the_words_of_a_pattern(pattern: str, words: set[str]) -> None:
    """Of several sets the one whose shortest word is longest; no word that has another in it."""
    assert words_of(re.compile(pattern)) == words


def test_it_is_tried_everywhere_first() -> None:
    """Before and after its words are known, a search finds the same."""
    worded, texts = WordedPattern("OOM when|out of memory", re.IGNORECASE), ["oom WHEN", "oom", ""]
    for _ in range(400):
        for text in texts:
            found = worded.search(text, text.casefold())
            assert (found is not None) == (text == "oom WHEN")


def test_text_that_is_not_ascii() -> None:
    """Letters that `re` takes for others, such as the long s, are folded as it does."""
    worded = WordedPattern("session", re.IGNORECASE)
    for _ in range(600):
        assert worded.search("\u017fe\u017f\u017fion", "\u017fe\u017f\u017fion".casefold())
