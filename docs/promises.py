"""What docs/reference/stability.md promises, read from the code.

tests/packaging/promised.txt holds what `promises` returned when it was last agreed on.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from command_pages import children

import gpuconf
import gpuconf.batching
import gpuconf.callbacks
import gpuconf.errors
import gpuconf.images
import gpuconf.ray
from gpuconf.commands.cli.main import build_parser
from gpuconf.commands.cli.output import SCHEMA_VERSION
from gpuconf.commands.rehearse.verdict import DOES_NOT_FIT, FITS, NO_VERDICT
from gpuconf.ipython.magic import HELP
from gpuconf.simcard.__main__ import _parser as simcard_parser
from gpuconf.support.command_line import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
MODULES = (gpuconf, gpuconf.batching, gpuconf.callbacks, gpuconf.images, gpuconf.ray)
# gpuconf sets these for the programs that it starts.
OWN_VARIABLES = {
    "GPUCONF_FAMILY",
    "GPUCONF_NO_RESERVE",
    "GPUCONF_PARENT",
    "GPUCONF_REHEARSAL",
    "GPUCONF_RUN",
    "GPUCONF_SIMCARD_CONTEXT_MIB",
    "GPUCONF_SIMCARD_FILE",
    "GPUCONF_SIMCARD_XLA",
    "GPUCONF_STATE",
}
_SOURCES = {".py", ".c", ".cc", ".h", ".rc"}
_VARIABLE = re.compile(r'(?:"|\$\{?)(GPUCONF_[A-Z_]+)\b')
_EXIT_CODE = re.compile(r"^  ((?:\d+(?:, )?)+) ", re.MULTILINE)


def promises(schemas: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Each thing that is promised by its title: words, or a call.

    ``schemas`` are those of configs/, by the name of their command.
    """
    documents = {
        f"{name}.schema.json {part}".strip(): _sorted(_fields(body))
        for name, schema in schemas.items()
        for part, body in {"": schema, **schema["definitions"]}.items()
    }
    return {
        **{name: text for module in MODULES for name, text in _names(module)},
        **{f"gpuconf.errors.{name}": _error(cls) for name, cls in errors().items()},
        **dict(_command("gpuconf", build_parser(at_once=list(COMMANDS)))),
        **dict(_command("gpuconf simcard", simcard_parser())),
        "exit codes of gpuconf rehearse, as verdicts": f"{FITS} {DOES_NOT_FIT} {NO_VERDICT}",
        "%gpuconf": _sorted(HELP),
        "variables": _sorted(variables()),
        "shipped profiles": _sorted(file.stem for file in (ROOT / "configs").glob("*.yaml")),
        "SCHEMA_VERSION": str(SCHEMA_VERSION),
        **{title: words for title, words in documents.items() if words},
    }


def errors() -> dict[str, type[gpuconf.GpuconfError]]:
    """The errors of gpuconf.errors, by name."""
    classes = inspect.getmembers(gpuconf.errors, inspect.isclass)
    return {name: cls for name, cls in classes if issubclass(cls, gpuconf.GpuconfError)}


def variables() -> set[str]:
    """The variables with which users configure gpuconf, wherever its code names them."""
    files = (file for file in (ROOT / "gpuconf").rglob("*") if file.is_file())
    texts = (file.read_text(encoding="utf-8") for file in files if file.suffix in _SOURCES)
    return {name for text in texts for name in _VARIABLE.findall(text)} - OWN_VARIABLES


def _names(module: ModuleType) -> Iterator[tuple[str, str]]:
    for name in module.__all__:
        value = getattr(module, name)
        is_call = inspect.isfunction(value) or value is gpuconf.callbacks.MemoryUsage
        yield f"{module.__name__}.{name}", _call(value) if is_call else type(value).__name__


def _call(function: Any) -> str:
    """Its parameters: those with a default end in =."""
    given = inspect.signature(function).parameters.values()
    plain = [
        each.replace(
            annotation=each.empty, default=each.empty if each.default is each.empty else None
        )
        for each in given
    ]
    return str(inspect.Signature(plain)).replace("=None", "=")


def _error(cls: type[gpuconf.GpuconfError]) -> str:
    """Its exit code, and what it can be caught as."""
    kinds = [each.__name__ for each in cls.__mro__[1:] if each not in (BaseException, object)]
    return f"exit-code:{cls.exit_code} {' '.join(kinds)}"


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """The options and the exit codes of a command and of its subcommands."""
    shown = (each for each in parser._actions if each.help != argparse.SUPPRESS)
    yield name, _sorted(option for each in shown for option in each.option_strings)
    codes = _EXIT_CODE.findall((parser.epilog or "").partition("exit codes:")[2])
    if codes:
        yield f"exit codes of {name}", _sorted(re.findall(r"\d+", " ".join(codes)))
    for word, child in children(parser).items():
        yield from _command(f"{name} {word}", child)


def _fields(schema: Any, place: str = "") -> Iterator[str]:
    """Each field, with the types and the words that it may have; definitions are left out."""
    if place:
        kinds = schema.get("type", [])
        yield from (f"{place}:{kind}" for kind in ([kinds] if isinstance(kinds, str) else kinds))
        yield from (f"{place}={value}" for value in schema.get("enum", ()))
        if "$ref" in schema:
            yield f"{place}:{schema['$ref'].rpartition('/')[2]}"
    for name, field in schema.get("properties", {}).items():
        yield from _fields(field, f"{place}.{name}".removeprefix("."))
    items = schema.get("items", [])
    parts = [schema.get("additionalProperties"), *(items if isinstance(items, list) else [items])]
    for part in (*parts, *schema.get("anyOf", ()), *schema.get("allOf", ())):
        if isinstance(part, dict):
            yield from _fields(part, place)


def _sorted(words: Iterable[str]) -> str:
    return " ".join(sorted(set(words)))
