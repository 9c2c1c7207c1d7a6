"""What users and maintainers read has none of the phrases that mark a translation.

english.yaml lists them.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

_ROOT = Path(__file__).parent.parent


class Phrase(NamedTuple):
    """A phrase to avoid: where it is seen, a sentence with it, and what to write."""

    pattern: str
    example: str
    instead: str


_DATA = yaml.safe_load(Path(__file__).with_name("english.yaml").read_text(encoding="utf-8"))
PHRASES = {name: Phrase(**row) for name, row in _DATA["phrases"].items()}
EXEMPT = [tuple(row) for row in _DATA["exempt"]]
# What rules match in others' logs and scripts.
_OF_LOGS = {"says", "unless", "pattern", "exclude", "when", "run"}


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


def _yaml(source: str) -> Iterator[tuple[int, str]]:
    """Each comment, and each value that is text; not what a rule looks for in a log."""
    for number, line in enumerate(source.split("\n"), 1):
        if line.lstrip().startswith("#"):
            yield number, line.strip()
    for root in yaml.compose_all(source, yaml.SafeLoader):
        yield from _values(root)


def _values(node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    if isinstance(node, yaml.ScalarNode):
        yield node.start_mark.line + 1, " ".join(node.value.split())
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _values(each)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value not in _OF_LOGS:
                yield from _values(value)


def _notebook(source: str) -> Iterator[tuple[int, str]]:
    """Each paragraph for its reader; a number counts cells."""
    for number, cell in enumerate(json.loads(source)["cells"], 1):
        if cell["cell_type"] == "markdown":
            yield from ((number, text) for _, text in _markdown("".join(cell["source"])))


def _unreleased(changelog: str) -> str:
    """The part of CHANGELOG.md that the next version adds; what is released stays as it is."""
    head, _, rest = changelog.partition("\n## ")
    return head + "\n" + rest.partition("\n## ")[0] if "nreleased" in rest[:40] else head


_READERS = {".md": _markdown, ".py": _python, ".yaml": _yaml, ".yml": _yaml, ".ipynb": _notebook}


@functools.cache
def _texts() -> list[tuple[str, int, str]]:
    return list(_read())


def _read() -> Iterator[tuple[str, int, str]]:
    for path in _files():
        source = path.read_text("utf-8")
        read = _READERS[path.suffix]
        for line, text in read(_unreleased(source) if path.name == "CHANGELOG.md" else source):
            yield str(path.relative_to(_ROOT)), line, text


def _files() -> Iterator[Path]:
    yield from _ROOT.glob("*.md")
    yield from (_ROOT / "docs").rglob("*.md")
    yield from (_ROOT / "docs").rglob("*.ipynb")
    yield from (_ROOT / "gpuconf").rglob("*.py")
    yield from (_ROOT / "gpuconf").rglob("*.yaml")
    yield from (_ROOT / "configs").glob("*.yaml")
    yield from (_ROOT / ".github").rglob("*.yml")


def _is_exempt(place: str, name: str, text: str) -> bool:
    return any(row[:2] == (place, name) and row[2] in text for row in EXEMPT)


def test_nothing_reads_as_a_translation() -> None:
    """In pages, notebooks, profiles, forms, the next release's changes, the package's texts."""
    found = [
        f"{place}:{line}: {match[0]!r}: write {phrase.instead!r}"
        for place, line, text in _texts()
        for name, phrase in PHRASES.items()
        if (match := re.search(phrase.pattern, text)) and not _is_exempt(place, name, text)
    ]
    assert found == []


def test_each_phrase_is_found() -> None:
    """In its example; and the words to write instead do not have it."""
    for name, phrase in PHRASES.items():
        assert re.search(phrase.pattern, phrase.example), name
        assert not re.search(phrase.pattern, phrase.instead), name


def test_exemptions_are_used() -> None:
    """Each still has its words in its file; one that has not is removed here."""
    used = {
        row
        for row in EXEMPT
        for place, _, text in _texts()
        if _is_exempt(place, row[1], text) and re.search(PHRASES[row[1]].pattern, text)
    }
    assert set(EXEMPT) - used == set()


def test_code_is_not_text() -> None:
    """Of a page its sentences are read, over ends of lines; of a module its words, not names."""
    page = "It\ntells.\n\n```\nit mends\n```\n- one\n- two\n"
    assert [text for _, text in _markdown(page)] == ["It tells.", "- one", "- two"]
    module = 'told = f"{mended} besides"  # rightly\n'
    texts = {text for _, text in _python(module)}
    assert texts == {"besides", "# rightly"}
