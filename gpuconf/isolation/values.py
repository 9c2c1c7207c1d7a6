"""A value in a memory file: its pickle, its arrays next to it, and a table of their places.

Arrays are outside the pickle (protocol 5), so they are written without a copy.  The reader maps the
file: an array is copied when it is written to, page by page.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from collections.abc import Callable
from typing import Any

# The places of the parts are at the end of the file, and below them the size of this table.
_TABLE_SIZE = struct.Struct("<Q")
_ALIGNMENT = 64  # bytes, as for arrays that NumPy allocates
_LEAST_MAPPED = 1 << 20  # bytes


def write_value(descriptor: int, value: Any, pickler: Callable[..., Any]) -> Any:
    """Write ``value`` as the only content of a memory file; return the pickler that was used.

    Raises what the pickler raises for a value that cannot be pickled.
    """
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    buffers: list[pickle.PickleBuffer] = []
    with open(descriptor, "wb", closefd=False) as file:
        used = pickler(file, protocol=5, buffer_callback=buffers.append)
        used.dump(value)
        places = [(0, file.tell())]
        for buffer in buffers:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            with buffer.raw() as content:
                places.append((file.tell(), content.nbytes))
                file.write(content)
        table = pickle.dumps(places)
        file.write(table + _TABLE_SIZE.pack(len(table)))
    return used


def read_value(descriptor: int) -> Any:
    """Return the value in a memory file."""
    mapped = mmap.mmap(descriptor, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    content = memoryview(mapped)
    end = len(content) - _TABLE_SIZE.size
    (table_size,) = _TABLE_SIZE.unpack(content[end:])
    places = pickle.loads(content[end - table_size : end])
    first, *buffers = [content[at : at + size] for at, size in places]
    # A small array that is kept would keep the whole file in memory.
    small = (bytearray(each) if len(each) < _LEAST_MAPPED else each for each in buffers)
    return pickle.loads(first, buffers=small)
