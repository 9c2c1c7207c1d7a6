"""Record the allocator events with TensorFlow's own profiler; read the limits of its devices."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.support.keras_api import training
from gpuconf.support.keras_api.devices import gpu_limits
from gpuconf.support.keras_api.patching import wrap

MARK = "gpuconf mark: "
_SEGMENT_S = 60.0
# The profiler keeps every event in memory until it is stopped.  A program that computes for an hour
# before its first step would fill it, so the tape is replaced regularly, up to this total size.
_MOST_TAPE_BYTES = 1024**3
# Log lines of TensorFlow's profiler, which logs some of them as errors on a GPU without CUPTI.
_OURS = re.compile(
    rb"[ /](session_manager|profiler_session|profiler_controller|save_profile|cupti_\w+|"
    rb"cuda_version_variants)\.cc:"
)
_STDERR = 2


class MemoryTape:
    """Records allocations from the time TensorFlow is imported, with marks on the same tape."""

    def __init__(self, record: AgentRecord) -> None:
        self._record = record
        self._lock = threading.RLock()
        self._pid: int | None = None  # process whose profiler runs
        self._tapes: list[dict[str, Any]] = []
        self._over = threading.Event()
        self._trace: Any = None

    def start(self) -> None:
        """Start the profiler, which creates no devices, and keep the program from starting it."""
        self._profilers = training.profiler_modules()
        profiler = self._profilers[0]
        self._start, self._stop = profiler.start, profiler.stop
        self._options = profiler.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=0
        )
        with self._lock:
            self._begin_tape()
        self._keep_the_programs_profiler_off()
        threading.Thread(target=self._change_tapes, name="gpuconf-tape", daemon=True).start()

    def stop(self) -> None:
        """Stop the profiler and write the last tape; further calls do nothing."""
        self._over.set()
        with self._lock:
            self._end_tape()
        if self._pid == os.getpid():
            self._record.update(tapes=self._tapes)

    def mark(self, text: str) -> None:
        """Put a mark on the tape, in TensorFlow's own clock."""
        if self._pid == os.getpid() and not self._over.is_set():
            import tensorflow as tf

            with tf.profiler.experimental.Trace(MARK + text):
                pass

    def note_devices(self) -> None:
        """Record the GPU devices and their limits, without creating any devices."""
        try:
            devices = _devices()
        except Exception as error:  # private API; the report works without
            self._record.append("notes", f"TensorFlow's devices could not be read: {error}")
            return
        self._record.update(devices=devices)

    def _begin_tape(self) -> None:
        folder = os.path.join(self._record.folder, f"tape{len(self._tapes)}")
        self._tapes.append({"folder": folder, "began_ns": time.time_ns(), "whole": False})
        self._pid = os.getpid()
        with _quietly():
            self._start(folder, self._options)

    def _end_tape(self) -> None:
        if self._pid != os.getpid() or not self._tapes or self._tapes[-1]["whole"]:
            return  # a forked child has no profiler
        with _quietly():
            self._stop()
        self._tapes[-1]["whole"] = True

    def _change_tapes(self) -> None:
        while not self._over.wait(_SEGMENT_S):
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    self._end_tape()
                except Exception as error:  # a full disk; the tape remains incomplete
                    self._over.set()
                    self._record.append("notes", f"the memory trace ended: {error}")
                    return
                if _size(self._record.folder) > _MOST_TAPE_BYTES:
                    self._over.set()
                    self._record.append(
                        "notes", "the memory trace grew too large and was ended before the steps"
                    )
                    return
                self._begin_tape()

    def _keep_the_programs_profiler_off(self) -> None:
        """Disable the program's profiling: only one profiler can run in a process."""

        def say(*_: Any, **__: Any) -> None:
            self._record.append("notes", "the program's own profiling was skipped")

        for module in self._profilers:
            for name in ("start", "stop"):
                wrap(module, name, say)


def bytes_in_use() -> int | None:
    """Bytes in use by TensorFlow's allocator on the GPU with the most; None without a GPU."""
    import tensorflow as tf

    try:
        gpus = tf.config.list_logical_devices("GPU")
        info = tf.config.experimental.get_memory_info
        return max(
            (int(info(f"GPU:{index}")["current"]) for index in range(len(gpus))), default=None
        )
    except Exception:  # an allocator without statistics
        return None


def _size(folder: str) -> int:
    return sum(
        os.path.getsize(os.path.join(place, name))
        for place, _, names in os.walk(folder)
        for name in names
    )


def _devices() -> list[dict[str, Any]]:
    import tensorflow

    gpus = gpu_limits()
    if not gpus:
        return []
    cards = []  # the GPU of each logical device, in order
    for card, device in enumerate(tensorflow.config.list_physical_devices("GPU")):
        parts = tensorflow.config.get_logical_device_configuration(device)
        cards += [card] * max(1, len(parts or ()))
    known = len(cards) == len(gpus)
    return [
        {
            "index": int(name.rpartition(":")[2]),
            "limit_bytes": limit,
            "card": cards[place] if known else None,
        }
        for place, (name, limit) in enumerate(gpus)
    ]


@contextmanager
def _quietly() -> Iterator[None]:
    """Buffer all stderr output from any thread, then write it without the profiler's lines."""
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
                if not _OURS.search(line):
                    _write_all(line)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(_STDERR, data) :]
