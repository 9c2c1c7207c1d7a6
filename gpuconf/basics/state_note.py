"""The note that a process leaves for its children in ``GPUCONF_STATE``.

A child inherits the variables that gpuconf set in its parent, and cannot distinguish them from the
user's.  The note lists them, with the profile and GPUs that the parent chose.  It also names its
writer, so that a note copied to another machine or kept across a reboot is ignored.

The note is printable, because job schedulers and ``env`` files pass it on::

    2;host=lab3;boot=6f0c…;pid=4242;profile=/home/a/gpuconf.yaml;origin=project;gpus=GPU-1,GPU-2;
    set=CUDA_VISIBLE_DEVICES,GPU-1,0%2C1;set=TF_FORCE_GPU_ALLOW_GROWTH,true

A ``set`` holds the name, our value and the previous value, which is omitted if the variable was
unset.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from gpuconf.basics.processes import text_in

STATE_VARIABLE = "GPUCONF_STATE"
FORMAT = "2"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_ESCAPES = (("%", "%25"), (",", "%2C"), (";", "%3B"), ("=", "%3D"))


class SetVariable(NamedTuple):
    """A variable that was set: its name, our value, and the previous value (None: it was unset)."""

    name: str
    ours: str
    before: str | None = None


class Writer(NamedTuple):
    """Who wrote a note: the host name, the machine's boot id ("" if unknown), and the process."""

    host: str
    boot: str
    pid: int


class StateNote(NamedTuple):
    """What a process passes on to its children.

    ``profile`` is an absolute path, or a name if ``origin`` is ``shipped``; both are empty if no
    profile was active.  ``asked`` is the GPUCONF_PROFILE of that process, "" if there was none.
    ``gpus`` are the UUIDs of the planned GPUs, empty until there is a plan.
    """

    writer: Writer
    records: tuple[SetVariable, ...] = ()
    profile: str = ""
    origin: str = ""
    asked: str = ""
    gpus: tuple[str, ...] = ()


def this_process() -> Writer:
    """Describe this process as the writer of a note."""
    if sys.platform == "win32":
        return Writer(os.environ.get("COMPUTERNAME", ""), "", os.getpid())
    return Writer(os.uname().nodename, text_in(_BOOT_ID).strip(), os.getpid())


def read_note(environ: Mapping[str, str], reader: Writer | None = None) -> StateNote | None:
    """Return the note in ``environ``; None if ``reader`` (by default this process) cannot trust it.

    A note in another format, or from another machine or boot, is ignored: its variables may mean
    something else here.
    """
    text = environ.get(STATE_VARIABLE)
    if not text:
        return None
    note = _decode(text)
    if note is None:
        return None
    reader = reader or this_process()
    here = (note.writer.host, note.writer.boot) == (reader.host, reader.boot)
    return note if here else None


def encode(note: StateNote) -> str:
    """Return the text of ``note``."""
    writer = note.writer
    fields = [("host", writer.host), ("boot", writer.boot), ("pid", str(writer.pid))]
    fields += [("profile", note.profile), ("origin", note.origin), ("asked", note.asked)]
    parts = [f"{name}={_escape(value)}" for name, value in fields if value]
    if note.gpus:
        parts.append("gpus=" + ",".join(map(_escape, note.gpus)))
    parts += [
        "set=" + ",".join(_escape(part) for part in record if part is not None)
        for record in note.records
    ]
    return ";".join([FORMAT, *parts])


def _decode(text: str) -> StateNote | None:
    head, *parts = text.split(";")
    if head != FORMAT:
        return None
    fields: dict[str, str] = {}
    records: list[SetVariable] = []
    for part in parts:
        name, _, value = part.partition("=")
        if name == "set":
            values = [_unescape(each) for each in value.split(",")]
            if len(values) in (2, 3):
                records.append(SetVariable(*values))
        else:
            fields[name] = value
    pid = fields.get("pid", "")
    writer = Writer(
        _unescape(fields.get("host", "")),
        _unescape(fields.get("boot", "")),
        int(pid) if pid.isascii() and pid.isdecimal() and len(pid) < 12 else 0,
    )
    gpus = tuple(_unescape(each) for each in fields.get("gpus", "").split(",") if each)
    profile, origin, asked = (
        _unescape(fields.get(name, "")) for name in ("profile", "origin", "asked")
    )
    return StateNote(writer, tuple(records), profile, origin, asked, gpus)


def _escape(text: str) -> str:
    for sign, code in _ESCAPES:
        text = text.replace(sign, code)
    return text


def _unescape(text: str) -> str:
    for sign, code in reversed(_ESCAPES):
        text = text.replace(code, sign)
    return text
