"""What users and maintainers read has none of the phrases that mark a translation.

The list is short on purpose: each phrase was common here once, and has a plain word in its place.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

_ROOT = Path(__file__).parent.parent


class Phrase(NamedTuple):
    """A phrase to avoid: where it is seen, a sentence with it, and what to write."""

    pattern: str
    example: str
    instead: str


_NOUNS = (
    "allocator|array|cap|class|container|device|dump|fault|file|folder|function|image|JSON|"
    "list|model|name|notebook|number|option|order|path|program|Python|shape|share|size|text"
)
PHRASES = {
    "told": Phrase(r"\b[Tt](?:old|ells)\b", "It tells what is free.", "reports, says, shows"),
    "mend": Phrase(r"\b[Mm]end(?:s|ed|ing)?\b", "a command that mends it", "fix"),
    "besides": Phrase(r"\b[Bb]esides\b", "another 1536 MiB besides", "in addition, also"),
    "rightly": Phrase(r"\b[Rr]ightly\b", "176 were named rightly", "correctly"),
    "whom": Phrase(r"\b[Ww]hom\b", "the user for whom it was made", "who, or another sentence"),
    "had": Phrase(r"\bthere (?:is|was) had\b", "what there is had", "a verb with its subject"),
    "came of it": Phrase(r"\bc[ao]mes? of it\b", "the root from what came of it", "results in"),
    "way back": Phrase(r"\b[Tt]he way back\b", "tensors for the way back", "the backward pass"),
    "nobody": Phrase(r"\b[Nn]obody sets?\b|\b[Ww]here nobody\b",
                     "the reserve, where nobody sets a limit", "if it is not set"),
    "in pieces": Phrase(r"\bmemory (?:is|was) (?:free )?in pieces\b|\bin pieces only\b",
                        "the card's memory is in pieces", "fragmented"),
    "said": Phrase(r"\b(?:is|are) said\b", "how many have none is said once", "a line reports"),
    "speaks": Phrase(r"\bspeaks of\b", "the log speaks of a GPU", "mentions"),
    "as ever": Phrase(r"\bas ever\b", "the shell is as ever", "as usual"),
    "is no": Phrase(rf"(?<![Hh]ere )\b(?:is|was) no (?:{_NOUNS})\b", "this file is no text",
                    "is not a"),
    "find a reader": Phrase(r"\bneed not find\b", "It need not find a reader.", "ignore it if"),
    "count first": Phrase(r"(?:^|[.!?:] )\W{0,2}Of \d[^.]{0,60} (?:it|\d+) ",
                          "Of 187 logs of people it told 176.", "It diagnosed 176 of 187 logs."),
    "verb first": Phrase(
        r"(?:^|[.;] )(?:Is|Are|Has|Was|Were|Does) (?:the|a|an|it|there)\b[^.?!:]*, [^.?!]*\.",
        "Is the sum within the limit, memory was free.", "If the sum is within …"),
}  # fmt: skip
# File, phrase, words around it, and why they stay.
EXEMPT = (
    ("docs/causes/oom-device-startup.md", "told", "unless told otherwise", "an English idiom"),
    ("CHANGELOG.md", "said", "is said on stderr", "goes with the changelog of the release"),
    ("CHANGELOG.md", "said", "is said in two lines", "goes with the changelog of the release"),
)


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    """Each paragraph outside fenced and indented code, with the number of its first line."""
    is_code, first, lines = False, 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        is_fence = re.match(r" *(?:```|~~~)", line) is not None
        is_code ^= is_fence
        is_text = not (is_fence or is_code or re.match(r" {4,}\w+ =", line)) and line.strip()
        if lines and (not is_text or re.match(r" *(?:[-|#]|\d+\.)", line)):
            yield first, " ".join(lines)
            lines = []
        if is_text:
            first = first if lines else number
            lines.append(line.strip())


def _python(source: str) -> Iterator[tuple[int, str]]:
    """Each comment, docstring and other string; names are not text."""
    for number, line in enumerate(source.split("\n"), 1):
        if "#" in line:  # one within a string is text too
            yield number, "#" + line.partition("#")[2]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


def _unreleased(changelog: str) -> str:
    """The part of CHANGELOG.md that the next version adds; what is released stays as it is."""
    head, _, rest = changelog.partition("\n## ")
    return head + "\n" + rest.partition("\n## ")[0] if "nreleased" in rest[:40] else head


@functools.cache
def _texts() -> list[tuple[str, int, str]]:
    return list(_read())


def _read() -> Iterator[tuple[str, int, str]]:
    for path in (_ROOT / "README.md", _ROOT / "CONTRIBUTING.md", *(_ROOT / "docs").rglob("*.md")):
        for line, text in _markdown(path.read_text("utf-8")):
            yield str(path.relative_to(_ROOT)), line, text
    for line, text in _markdown(_unreleased((_ROOT / "CHANGELOG.md").read_text("utf-8"))):
        yield "CHANGELOG.md", line, text
    for path in (_ROOT / "gpuconf").rglob("*.py"):
        for line, text in _python(path.read_text("utf-8")):
            yield str(path.relative_to(_ROOT)), line, text


def _is_exempt(place: str, name: str, text: str) -> bool:
    return any(row[:2] == (place, name) and row[2] in text for row in EXEMPT)


def test_nothing_reads_as_a_translation() -> None:
    """In README, docs, the next release's changes, and the package's strings and comments."""
    found = [
        f"{place}:{line}: {match[0]!r}: write {phrase.instead!r}"
        for place, line, text in _texts()
        for name, phrase in PHRASES.items()
        if (match := re.search(phrase.pattern, text)) and not _is_exempt(place, name, text)
    ]
    assert found == []


@pytest.mark.parametrize("name", PHRASES)
def test_each_phrase_is_found(name: str) -> None:
    """In its example; and the words to write instead do not have it."""
    phrase = PHRASES[name]
    assert re.search(phrase.pattern, phrase.example)
    assert not re.search(phrase.pattern, phrase.instead)


def test_exemptions_are_used() -> None:
    """Each still has its words in its file; one that has not is removed here."""
    unused = [
        row for row in EXEMPT
        if not any(_is_exempt(place, row[1], text) and place == row[0]
                   and re.search(PHRASES[row[1]].pattern, text) for place, _, text in _texts())
    ]  # fmt: skip
    assert unused == []


def test_code_is_not_text() -> None:
    """Of a page its sentences are read, over ends of lines; of a module its words, not names."""
    page = "It\ntells.\n\n```\nit mends\n```\n- one\n- two\n"
    assert [text for _, text in _markdown(page)] == ["It tells.", "- one", "- two"]
    module = 'told = f"{mended} besides"  # rightly\n'
    texts = {text for _, text in _python(module)}
    assert texts == {"besides", "# rightly"}
