"""How values travel: in memory files, by cloudpickle, which also sends a script's own code."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
import types
from typing import Any

import cloudpickle

# The places of the parts are at the end of the file, and below them the size of this table.
_TABLE_SIZE = struct.Struct("<Q")
_ALIGNMENT = 64  # bytes, as for arrays that NumPy allocates
_LEAST_MAPPED = 1 << 20  # bytes


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """cloudpickle's pickler, but its functions remember their source file.

    cloudpickle 3.1.3 replaces it with ``<dynamic-code>``. Without it, tracebacks have no source
    lines, and AutoGraph cannot convert the function.
    """

    def reducer_override(self, value: Any) -> Any:
        """Return how ``value`` is pickled; NotImplemented leaves it to pickle."""
        if isinstance(value, types.CodeType):
            make, parts = self.dispatch_table[types.CodeType](value)
            return _with_file, (make, parts, value.co_filename)
        reduced = super().reducer_override(value)
        has_slots = isinstance(value, type) and vars(value).get("__slots__")
        if has_slots and isinstance(reduced, tuple):
            make, parts, *_ = reduced
            if make.__name__ == "_make_skeleton_class":  # cloudpickle would make it without slots
                parts[3]["__slots__"] = value.__slots__
        return reduced


def _with_file(make: Any, parts: Any, file: str) -> types.CodeType:
    code: types.CodeType = make(*parts)
    return code.replace(co_filename=file)


def pickled(value: Any, pickler: type[Pickler] = Pickler) -> bytes:
    """Return the pickle of a small value, with its arrays inside."""
    file = io.BytesIO()
    pickler(file, protocol=5).dump(value)
    return file.getvalue()


def refusal_of(value: Any, pickler: type[Pickler] = Pickler) -> Exception | None:
    """Return the reason why a value cannot be pickled; None if it can."""
    try:
        pickled(value, pickler)
    except Exception as error:
        return error
    return None


def write_value(descriptor: int, value: Any, pickler: type[Pickler]) -> None:
    """Write ``value`` as the only content of a memory file: its pickle, and its arrays next to it.

    Arrays are written outside the pickle (protocol 5), without a copy.  Raises what the pickler
    raises for a value that cannot be pickled.
    """
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    buffers: list[pickle.PickleBuffer] = []
    with open(descriptor, "wb", closefd=False) as file:
        pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
        places = [(0, file.tell())]
        for buffer in buffers:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            with buffer.raw() as content:
                places.append((file.tell(), content.nbytes))
                file.write(content)
        table = pickle.dumps(places)
        file.write(table + _TABLE_SIZE.pack(len(table)))


def read_value(descriptor: int) -> Any:
    """Return the value in a memory file; an array is copied when it is written to, page by page."""
    mapped = mmap.mmap(descriptor, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    content = memoryview(mapped)
    end = len(content) - _TABLE_SIZE.size
    (table_size,) = _TABLE_SIZE.unpack(content[end:])
    places = pickle.loads(content[end - table_size : end])
    first, *buffers = [content[at : at + size] for at, size in places]
    # A small array that is kept would keep the whole file in memory.
    small = (bytearray(each) if len(each) < _LEAST_MAPPED else each for each in buffers)
    return pickle.loads(first, buffers=small)
