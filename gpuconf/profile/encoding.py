"""Files to text: what may be opened at all, and which bytes are text."""

from __future__ import annotations

import os
import stat

from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile.problems import nearest

LARGEST_FILE_BYTES = 256 * 1024
_BYTE_ORDER_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),  # before UTF-16, whose mark it begins with
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_UTF8_MARK = b"\xef\xbb\xbf"
# YAML ends lines at these, editors do not: line numbers would be wrong, comments would end.
_ODD_LINE_ENDS = {"\x85": "U+0085", "\u2028": "U+2028", "\u2029": "U+2029"}
_LIST = "see what there is: gpuconf profiles list"


def read_bytes(path: str) -> bytes:
    """The bytes of the ordinary file at ``path``; ProfileError where it is not one.

    Pipes and devices are refused before they are opened (a pipe would block for ever), and
    a file above 256 KiB before it is read.
    """
    try:
        status = os.stat(path)
        if refusal := _refused_kind(path, status):
            raise refusal
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE_BYTES + 1)
    except ProfileError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if len(data) > LARGEST_FILE_BYTES:  # in /proc a file's size is said to be 0
        raise _too_large(path, len(data))
    return data


def _refused_kind(path: str, status: os.stat_result) -> ProfileError | None:
    if stat.S_ISDIR(status.st_mode):
        return _refusal("this is a folder; a profile is a YAML file", _folder_hint(path), path)
    if not stat.S_ISREG(status.st_mode):
        message = "this is not an ordinary file (a pipe or a device)"
        return _refusal(message, "save it to a file", path)
    return _too_large(path, status.st_size) if status.st_size > LARGEST_FILE_BYTES else None


def _folder_hint(path: str) -> str:
    try:
        inside = sorted(n for n in os.listdir(path) if n.endswith((".yaml", ".yml")))
    except OSError:
        inside = []
    return f"name a file in it, such as {os.path.join(path, inside[0])}" if inside else _LIST


def _too_large(path: str, size_bytes: int) -> ProfileError:
    limit = f"{LARGEST_FILE_BYTES} (256 KiB)"
    message = f"the file has {size_bytes} bytes or more; a profile has at most {limit}"
    hint = "is this the right file? for a good one: gpuconf profiles show shared-desktop"
    return _refusal(message, hint, path)


def _unreadable(path: str, error: OSError | ValueError) -> ProfileError:
    """The refusal for a file that cannot be opened."""
    if isinstance(error, PermissionError):
        return _refusal("the file may not be read by this user", f"chmod u+r {path}", path)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        missing = "a link to a file that is not there" if os.path.islink(path) else "no such file"
        return ProfileNotFoundError(missing, hint=_missing_hint(path), file=path)
    reason = getattr(error, "strerror", None) or str(error)
    return _refusal(f"the file cannot be read: {reason}", _LIST, path)


def _missing_hint(path: str) -> str:
    """The files of nearly that name in the same folder."""
    folder, name = os.path.split(path)
    try:
        beside = [n for n in os.listdir(folder or ".") if n.endswith((".yaml", ".yml"))]
    except (OSError, ValueError):
        beside = []
    meant = nearest(name, beside)
    return f"did you mean {os.path.join(folder, meant)}?" if meant else _LIST


def _refusal(message: str, hint: str, path: str, line: int = 1, column: int = 1) -> ProfileError:
    return ProfileError(message, hint=hint, file=path, line=line, column=column)


def decode(data: bytes, file: str) -> str:
    """``data`` as text; ProfileError for anything but UTF-8 (a UTF-8 mark is allowed)."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            hint = f"save it as UTF-8: iconv -f {name} -t UTF-8 {file} > new.yaml"
            raise _refusal(f"the file is {name}; a profile is UTF-8 text", hint, file)
    data = data.removeprefix(_UTF8_MARK)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(data, error.start, file) from None
    for character, name in _ODD_LINE_ENDS.items():
        if character in text:
            place = position(text, text.index(character))
            hint = "delete it; end lines with an ordinary line feed"
            raise _refusal(f"found the invisible line end {name}", hint, file, **place)
    return text


def _not_text(data: bytes, offset: int, file: str) -> ProfileError:
    if b"\x00" in data[:1024]:
        message = "the file is binary; a profile is UTF-8 text"
        hint = "is this the right file? see: gpuconf profiles list"
    else:
        message = f"found the byte 0x{data[offset]:02x}, which is not UTF-8"
        hint = f"save the file as UTF-8: iconv -f ISO-8859-1 -t UTF-8 {file} > new.yaml"
    place = position(data[:offset].decode("utf-8"), offset)
    return _refusal(message, hint, file, **place)


def position(text: str, offset: int) -> dict[str, int]:
    """Line and column, from 1, of the character at ``offset``."""
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return {"line": before.count("\n") + 1, "column": len(before) - before.rfind("\n")}
