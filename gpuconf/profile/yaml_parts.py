"""PyYAML's scanner, parser and composer without the rest of PyYAML, for text already in memory.

``import yaml`` also loads constructors and dumpers, and compiles one large regular expression
(``Reader.NON_PRINTABLE``, yaml/pyyaml#301): 15 times the cost of what a profile needs.  So the
modules are imported from PyYAML's folder into a package of our own, bypassing ``yaml/__init__.py``.
PyYAML's own modules are used if PyYAML is already loaded, or if it is not in a regular folder, as
in some frozen programs.
"""

from __future__ import annotations

import sys

from gpuconf.errors import MissingDependencyError

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from types import ModuleType

    from yaml import composer, error, events, nodes, parser, scanner

__all__ = [
    "Reader",
    "UnprintableError",
    "composer",
    "error",
    "events",
    "nodes",
    "parser",
    "scanner",
]

_PACKAGE = "gpuconf.profile._yaml"
_PARTS = ("composer", "error", "events", "nodes", "parser", "scanner")


def _parts() -> list[ModuleType]:
    """Return the PyYAML modules named in ``_PARTS``.

    Raises MissingDependencyError without PyYAML, or if another module named yaml hides it.
    """
    if "yaml" not in sys.modules:
        try:
            return _parts_alone()
        except ImportError:
            sys.modules.pop(_PACKAGE, None)
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError(
            "profiles are YAML, and PyYAML is not installed", hint="pip install pyyaml"
        ) from None
    found = (getattr(yaml, name, None) for name in _PARTS)
    parts = [part for part in found if isinstance(part, type(sys))]
    if len(parts) < len(_PARTS):
        file = getattr(yaml, "__file__", None)
        raise MissingDependencyError(
            f"profiles are YAML, and {file or 'a module named yaml'} hides PyYAML",
            hint="rename that file or folder" if file else "import gpuconf.auto before it is made",
        )
    return parts


def _parts_alone() -> list[ModuleType]:
    """Import the parts as members of ``_PACKAGE``; raise ImportError if that is impossible."""
    # Like importlib.util.find_spec, which costs as much to import as the parts do.
    specs = (finder.find_spec("yaml", None) for finder in sys.meta_path)
    spec = next(filter(None, specs), None)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("PyYAML lies in no folder")
    package = sys.modules[_PACKAGE] = type(sys)(_PACKAGE)
    package.__path__ = list(spec.submodule_search_locations)
    names = [f"{_PACKAGE}.{part}" for part in _PARTS]
    for name in names:
        __import__(name)
    return [sys.modules[name] for name in names]


if not TYPE_CHECKING:
    composer, error, events, nodes, parser, scanner = _parts()


class UnprintableError(Exception):
    """The text has a character at ``position`` that YAML does not allow."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Reader:
    """The part of PyYAML's Reader that the scanner uses."""

    encoding = None  # the text is already decoded

    def __init__(self, text: str) -> None:
        _refuse_unprintable(text)
        self.buffer = f"{text}\0"
        self.pointer = self.index = self.line = self.column = 0

    def peek(self, index: int = 0) -> str:
        """Return the character ``index`` places ahead; NUL at the end of the text."""
        return self.buffer[self.pointer + index]

    def prefix(self, length: int = 1) -> str:
        """Return the next ``length`` characters."""
        return self.buffer[self.pointer : self.pointer + length]

    def forward(self, length: int = 1) -> None:
        """Advance by ``length`` characters, counting lines and columns as YAML 1.1 does."""
        for _ in range(length):
            character = self.buffer[self.pointer]
            self.pointer += 1
            self.index += 1
            if character in "\n\x85\u2028\u2029" or (character == "\r" and self.peek() != "\n"):
                self.line += 1
                self.column = 0
            elif character != "\ufeff":
                self.column += 1

    def get_mark(self) -> error.Mark:
        """Return the current position, for a message."""
        return error.Mark(
            "<unicode string>", self.index, self.line, self.column, self.buffer, self.pointer
        )


def _refuse_unprintable(text: str) -> None:
    if "".join(text.split("\n")).isprintable():
        return  # Python considers fewer characters printable than YAML does
    for position, character in enumerate(text):
        if not _is_printable(character):
            raise UnprintableError(position)


def _is_printable(character: str) -> bool:
    """Whether YAML 1.1 allows it: its c-printable set, with all Unicode planes."""
    return (
        character in "\t\n\r\x85"
        or " " <= character <= "~"
        or "\xa0" <= character <= "\ud7ff"
        or "\ue000" <= character <= "\ufffd"
        or character >= "\U00010000"
    )
