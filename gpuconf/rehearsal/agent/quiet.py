"""Keeps off the program's stderr what TensorFlow logs because *we* trace it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# The source files of TensorFlow's profiler; on a card without CUPTI some of it is logged as errors.
_OURS = (
    b" session_manager.cc:",
    b" profiler_session.cc:",
    b" profiler_controller.cc:",
    b" save_profile.cc:",
    b" cupti_",
    b" cuda_version_variants.cc:",
    b"/profiler_session.cc:",
    b"/save_profile.cc:",
    b"/cupti_",
)
_STDERR = 2


@contextmanager
def quietly() -> Iterator[None]:
    """Hold back what any thread writes to stderr meanwhile; write it after, without those lines."""
    try:
        held = tempfile.TemporaryFile()  # noqa: SIM115  # closed below
    except OSError:  # a full disk
        yield
        return
    with held:
        try:
            kept = os.dup(_STDERR)
        except OSError:  # there is no stderr
            yield
            return
        os.dup2(held.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not any(sign in line for sign in _OURS):
                    _write(line)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_STDERR, data) :]
