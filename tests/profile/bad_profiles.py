"""Wrong profiles, and what must be said about each: bad_profiles.yaml, and what is no row there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml


class BadProfile(NamedTuple):
    """A wrong file: its content, where the error must point, and what it must say.

    ``schema_rejects`` is False for what JSON Schema cannot express or an editor never sees:
    the text's form, other files, and combinations of keys.
    """

    name: str
    content: bytes
    line: int
    column: int
    says: str
    hint: str
    schema_rejects: bool = True


# Files that are no text, or too long for a row.
CONTENTS = {
    "sizes: a thousand digits": b"memory: {memory_limit: %bGiB}" % (b"9" * 1000),
    "gpus: devices too many": b"virtual_devices: [%b]" % b", ".join([b"1%"] * 65),
    "yaml: long tag": b"gpus: !%b!b c\n" % (b"a" * 5000),
    "yaml: many aliases": b"a: &a x\nb: [%b]\n" % (b"*a, " * 65),
    "yaml: alias bomb": b"a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + b"".join(
        b"%c: &%c [%b]\n" % (name, name, b", ".join([b"*%c" % below] * 10))
        for below, name in zip(b"abcdefgh", b"bcdefghi", strict=True)
    ),
    "yaml: brackets": b"gpus: " + b"[" * 10_000,
    "yaml: braces": b"{a: " * 10_000,
    "yaml: many values": b"env: [%b]" % (b"a, " * 6000),
    "bytes: UTF-16": "gpus: all\n".encode("utf-16"),
    "bytes: UTF-16 BE": b"\xfe\xff\x00g",
    "bytes: UTF-32": "gpus: all\n".encode("utf-32"),
    "bytes: Latin-1": b"gpus: all\ndescription: gr\xfcn\n",
    "bytes: UTF-8 with a mark": b"\xef\xbb\xbfgpus: 0\n",
    "bytes: ELF": b"\x7fELF\x02\x01\x01\x00\x00\xff\xfe",
    "bytes: NUL": b"gpus: all\n\x00\n",
    "bytes: 10 MB": b"# " + b"x" * 10_000_000,
    "bytes: 257 KiB": b"#" * (256 * 1024 + 1),
}
CONTROLS = (
    *(("ESC", r"\e[31m"), ("NUL", r"\0"), ("CSI", r"\x9b"), ("DEL", r"\x7f")),
    *(("return", r"\r"), ("bell", r"\a"), ("right to left", r"\u202e")),
)
SHELL_VARIABLES = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PATH", "HOME"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHON_GIL"),
)


def _rows() -> Iterator[BadProfile]:
    """The rows of the YAML file, then those of the lists above."""
    sections = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    for section, rows in sections.items():
        for row_name, row in rows.items():
            name = f"{section}: {row_name}"
            content = row["file"].encode() if "file" in row else CONTENTS[name]
            place, _, says = row["error"].partition(" ")
            line, column = map(int, place.split(":"))
            if section == "code":
                says, row["hint"] = "nothing was executed", "plain text"
            can_reject = section not in ("combinations", "yaml", "code", "bytes")
            rejects = row.get("schema_rejects", can_reject)
            yield BadProfile(name, content, line, column, says, row["hint"], rejects)
    for key in ("description", "extends"):
        for control, escape in CONTROLS:
            content = f'{key}: "a{escape}b"'.encode()
            name = f"controls: {control} in {key}"
            yield BadProfile(
                name,
                content,
                1,
                len(key) + 3,
                f"{key}: expected no control characters",
                "delete it",
            )
    for variable in SHELL_VARIABLES:
        name, content = f"environment: {variable}", f"env: {{{variable}: a}}".encode()
        yield BadProfile(name, content, 1, 7, "cannot set LD_…", f"export {variable}=")


BAD_PROFILES = tuple(_rows())
