"""Creates card files, and reads from them what TensorFlow and NVML read.

All access goes through ``libgpuconf_card.so``, which is built from the same C source as the
stand-in driver, so that the file layout is defined in one place.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gpuconf.basics.environment import RUN_VARIABLE
from gpuconf.basics.units import GIB, sized
from gpuconf.errors import BackendError, UsageError
from gpuconf.simcard.bridge import LIBRARY, VARIABLE
from gpuconf.simcard.libraries import build_libraries
from gpuconf.simcard.wheels import NO_SUPPORT, WheelSupport
from gpuconf.simcard.xla import XlaSupport

FILE_VARIABLE = "GPUCONF_SIMCARD_FILE"
_LEASES_VARIABLE = "GPUCONF_LEASES"
LARGEST_COUNT = 16
_MOST_PROCESSES = 256
_NAME_BYTES = 96
_DRIVER_VERSION_BYTES = 32
# What NVML says of the processes on a GPU, in the order of enum card_processes in native/card.h:
# all; not what each uses (WSL2, Windows); pids of the host (containers); nothing (vGPU guests).
PROCESSES = ("exact", "unknown", "host-pids", "none")
_COMPUTE_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")


class CardSpec(NamedTuple):
    """The properties of the simulated GPUs; all ``count`` of them are identical.

    ``used_bytes`` is used by "the desktop" on each of them.  ``context_bytes`` is counted for each
    process and GPU as soon as it has a CUDA context (300 to 600 MB on a real GPU).
    ``processes`` is one of PROCESSES: what NVML reports about them. ``unified`` GPUs share host
    memory, and NVML reports no memory for them, as on a DGX Spark or a Jetson. ``cuda_version`` is
    the version that the driver supports, such as ``(13, 0)``; a CUDA runtime with a later major
    version reports that the driver is too old.
    """

    total_bytes: int = 11 * GIB
    used_bytes: int = 0
    count: int = 1  # type: ignore[assignment]  # hides tuple.count(), which is not needed
    name: str = "Simulated GeForce (gpuconf)"
    compute_capability: str = "8.6"
    driver_version: str = "580.95.05"
    cuda_version: tuple[int, int] = (13, 0)
    context_bytes: int = 0
    processes: str = PROCESSES[0]
    unified: bool = False


class CardProcess(NamedTuple):
    """A process with a context on a simulated GPU, and the device memory that it uses."""

    pid: int
    used_bytes: int


class _NativeSpec(ctypes.Structure):
    """``struct card_spec`` in native/card.h."""

    _fields_ = (
        ("total_bytes", ctypes.c_uint64),
        ("used_bytes", ctypes.c_uint64),
        ("context_bytes", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("cuda_version", ctypes.c_uint32),
        ("processes", ctypes.c_uint32),
        ("unified", ctypes.c_uint32),
        ("name", ctypes.c_char * _NAME_BYTES),
        ("driver_version", ctypes.c_char * _DRIVER_VERSION_BYTES),
    )


class _NativeProcess(ctypes.Structure):
    """``struct card_process`` in native/card.h."""

    _fields_ = (
        ("bytes", ctypes.c_uint64),
        ("pid", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    )


class Card:
    """A card file, and the libraries through which programs see it."""

    def __init__(self, path: str | os.PathLike[str], *, libraries: Path | None = None) -> None:
        """Set the file's path without opening it; build the libraries if needed."""
        self.path = Path(path)
        self.libraries = build_libraries() if libraries is None else libraries

    def describe(self) -> CardSpec:
        """Return the properties of the GPUs, as stored in the file."""
        native = _NativeSpec()
        with self._opened() as (library, card):
            library.simcard_describe(card, ctypes.byref(native))
        return _from_native(native)

    def used_bytes(self, index: int = 0) -> int:
        """Return the memory in use on a GPU by the desktop and all running processes."""
        used = ctypes.c_uint64()
        with self._opened() as (library, card):
            self._check(library.simcard_used(card, index, ctypes.byref(used)))
        return used.value

    def free_bytes(self, index: int = 0) -> int:
        """Return the memory that a program could still allocate on a GPU."""
        return self.describe().total_bytes - self.used_bytes(index)

    def processes(self, index: int = 0) -> tuple[CardProcess, ...]:
        """Return the running processes that have a context on a GPU."""
        found = (_NativeProcess * _MOST_PROCESSES)()
        with self._opened() as (library, card):
            count = library.simcard_processes(card, index, found, _MOST_PROCESSES)
            self._check(count)
        return tuple(CardProcess(each.pid, each.bytes) for each in found[:count])

    def set_desktop_bytes(self, size_bytes: int, *, index: int = 0) -> None:
        """Set the desktop's memory on a GPU; raise UsageError if it does not fit."""
        with self._opened() as (library, card):
            self._check(library.simcard_set_desktop(card, index, size_bytes))

    def uuid(self, index: int = 0) -> str:
        """Return a GPU's UUID, the same as from NVML and the driver."""
        text = ctypes.create_string_buffer(41)
        _load(self.libraries).simcard_uuid(index, text)
        return text.value.decode()

    def environment(
        self,
        base: Mapping[str, str],
        *,
        bridge: Path | None = None,
        wheels: WheelSupport = NO_SUPPORT,
        xla: XlaSupport | None = None,
    ) -> dict[str, str]:
        """Return ``base`` changed so that programs started with it see this GPU.

        With ``bridge`` (see `bridge_for_command`), TensorFlow computes on this GPU; without it,
        only memory works. With ``xla`` (see `xla_support`), TensorFlow's XLA compiles for this GPU.
        PyTorch and JAX need ``wheels`` (see `support_for_command`). The dynamic linker reads
        LD_LIBRARY_PATH when a program starts, so setting it in a running program has no effect.
        Raises UsageError if another plugin takes the bridge's place in TensorFlow.
        """
        rest = base.get("LD_LIBRARY_PATH")
        paths = [str(wheels.folder or ""), str(self.libraries), rest or ""]
        changed = {
            **base,
            "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
            FILE_VARIABLE: str(self.path),
        }
        there = [name for name in base.get("LD_PRELOAD", "").split(":") if name]
        preload = [name for name in wheels.preload if name not in there]
        if preload:
            changed["LD_PRELOAD"] = ":".join([*preload, *there])
        # Simulated GPUs of two card files have the same UUIDs, but are unrelated.
        changed[_LEASES_VARIABLE] = f"{self.path}.leases"
        changed.pop(RUN_VARIABLE, None)  # a run's plan is for other GPUs
        plugin = base.get(VARIABLE)
        if plugin and os.path.basename(plugin) != LIBRARY:
            raise UsageError(
                f"{VARIABLE} is {plugin}: TensorFlow accepts only one plugin, and the simulated "
                "GPU must be that plugin",
                hint=f"unset {VARIABLE}",
            )
        changed.pop(VARIABLE, None)
        if bridge is not None:
            changed[VARIABLE] = str(bridge)
        return changed if xla is None else {**changed, **xla.environment(changed)}

    @contextmanager
    def _opened(self) -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p]]:
        library = _load(self.libraries)
        card = ctypes.c_void_p()
        self._check(library.simcard_open(os.fsencode(self.path), ctypes.byref(card)))
        try:
            yield library, card
        finally:
            library.simcard_close(card)

    def _check(self, status: int) -> None:
        """Raise an error for a negative errno from native/card.c; ignore counts."""
        if status >= 0:
            return
        if status == -errno.EPROTO:
            raise BackendError(
                f"{self.path} is not a card file for this version of gpuconf",
                hint="create one: python -m gpuconf.simcard run --help",
            )
        show = f"show its GPUs: python -m gpuconf.simcard show {shlex.quote(str(self.path))}"
        if status == -errno.EINVAL:
            raise UsageError(
                f"{self.path} does not have that GPU, or its memory is smaller than that", hint=show
            )
        if status == -errno.ENOMEM:
            raise UsageError(f"a GPU in {self.path} does not have that much free memory", hint=show)
        raise _file_error(self.path, -status)


def create_card(path: str | os.PathLike[str], spec: CardSpec) -> Card:
    """Create a card file at ``path``, which must not exist, and return it.

    The file is created under another name and then linked, so that no process sees an incomplete
    one. Raises UsageError for an impossible spec or an existing path, and BackendError if the file
    cannot be written.
    """
    _check_spec(spec)
    card = Card(os.path.abspath(path))
    unfinished = Card(f"{card.path}.{os.getpid()}.new", libraries=card.libraries)
    native = _to_native(spec)
    library = _load(card.libraries)
    unfinished._check(library.simcard_create(os.fsencode(unfinished.path), ctypes.byref(native)))
    try:
        os.link(unfinished.path, card.path)
    except FileExistsError as error:
        hint = f"rm {shlex.quote(str(card.path))}"
        raise UsageError(f"{card.path} already exists", hint=hint) from error
    except OSError as error:
        raise _file_error(card.path, error.errno or errno.EIO) from error
    finally:
        os.unlink(unfinished.path)
    return card


def _file_error(path: Path, number: int) -> BackendError:
    """Return the system's error for a card file, with a command that fixes it or shows more."""
    if number == errno.ENOSPC:
        hint = f"free space there: df -h {shlex.quote(str(path.parent))}"
    elif number != errno.ENOENT:
        hint = f"ls -ld {shlex.quote(str(path.parent))} {shlex.quote(str(path))}"
    elif path.parent.is_dir():
        hint = f"create one: python -m gpuconf.simcard env --card {shlex.quote(str(path))}"
    else:
        hint = f"mkdir -p {shlex.quote(str(path.parent))}"
    return BackendError(f"card file {path}: {os.strerror(number)}", hint=hint)


def _check_spec(spec: CardSpec) -> None:
    if spec.total_bytes <= 0:
        raise _impossible(f"a GPU cannot have {spec.total_bytes} bytes of memory", "--total 8GiB")
    if not 0 <= spec.used_bytes <= spec.total_bytes:
        raise _impossible(
            f"used memory is {sized(spec.used_bytes)}, but the GPU has {sized(spec.total_bytes)}: "
            "it must be between 0 and that size",
            "--total 8GiB --used 2GiB",
        )
    if not 1 <= spec.count <= LARGEST_COUNT:
        rule = f"it must be 1 to {LARGEST_COUNT}"
        raise _impossible(f"the number of GPUs is {spec.count}: {rule}", "--count 2")
    if not _COMPUTE_CAPABILITY.fullmatch(spec.compute_capability):
        found = f"compute capability {spec.compute_capability!r} is not a number such as 8.6"
        raise _impossible(found, "--compute-capability 8.6")
    if spec.processes not in PROCESSES:
        found = f"what NVML reports about processes is {spec.processes!r}"
        raise _impossible(
            f"{found}: it must be one of {', '.join(PROCESSES)}", "--processes unknown"
        )
    if not 0 < len(spec.name.encode()) < _NAME_BYTES:
        rule = f"the name of a GPU must have 1 to {_NAME_BYTES - 1} bytes"
        raise _impossible(
            f"{rule}; this one has {len(spec.name.encode())}", "--name 'Simulated GPU'"
        )
    if not 0 < len(spec.driver_version.encode()) < _DRIVER_VERSION_BYTES:
        rule = f"a driver version must have 1 to {_DRIVER_VERSION_BYTES - 1} bytes"
        found = f"{rule}; this one has {len(spec.driver_version.encode())}"
        raise _impossible(found, "--driver-version 580.95.05")


def _impossible(message: str, options: str) -> UsageError:
    """Return the error for an impossible spec; ``options`` are an example of valid ones."""
    command = f"python -m gpuconf.simcard run {options} -- gpuconf plan"
    return UsageError(message, hint=f"for example: {command}")


def _to_native(spec: CardSpec) -> _NativeSpec:
    major, minor = spec.compute_capability.split(".")
    return _NativeSpec(
        total_bytes=spec.total_bytes,
        used_bytes=spec.used_bytes,
        context_bytes=spec.context_bytes,
        count=spec.count,
        major=int(major),
        minor=int(minor),
        cuda_version=spec.cuda_version[0] * 1000 + spec.cuda_version[1] * 10,
        processes=PROCESSES.index(spec.processes),
        unified=spec.unified,
        name=spec.name.encode(),
        driver_version=spec.driver_version.encode(),
    )


def _from_native(native: _NativeSpec) -> CardSpec:
    return CardSpec(
        total_bytes=native.total_bytes,
        used_bytes=native.used_bytes,
        count=native.count,
        name=native.name.decode(),
        compute_capability=f"{native.major}.{native.minor}",
        driver_version=native.driver_version.decode(),
        cuda_version=(native.cuda_version // 1000, native.cuda_version % 1000 // 10),
        context_bytes=native.context_bytes,
        processes=PROCESSES[native.processes],
        unified=bool(native.unified),
    )


@functools.cache
def _load(libraries: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(libraries / "libgpuconf_card.so"))
    library.simcard_describe.restype = None
    library.simcard_close.restype = None
    library.simcard_uuid.restype = None
    library.simcard_close.argtypes = (ctypes.c_void_p,)
    library.simcard_describe.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    library.simcard_used.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)
    library.simcard_processes.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_int,
    )
    library.simcard_set_desktop.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64)
    library.simcard_uuid.argtypes = (ctypes.c_uint32, ctypes.c_char_p)
    return library
