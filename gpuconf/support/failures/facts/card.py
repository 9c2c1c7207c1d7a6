"""The GPU as the log describes it: name, memory, TensorFlow's share, and other processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, Count
from gpuconf.basics.units import MIB
from gpuconf.support.failures.facts.tensor import first_group, logged_size
from gpuconf.support.failures.log.watchers import LogLine

_CREATED = re.compile(r"device:GPU:\d{1,4} with (\d{1,12}) MB memory")
_DESCRIBED = re.compile(
    r"(?<!with )name: (?P<name>[^,\n]{2,80}?)(?:,|\s{1,9}major|\s{1,9}computeCapability|\s{0,9}$)"
    r"|StreamExecutor device \(\d{1,4}\): (?P<se>[^,\n]{2,80}),"
)
_CAPABILITY = re.compile(
    r"[Cc]ompute ?[Cc]apability:? (\d{1,3}\.\d)|major: (\d{1,3}),? minor: (\d{1,3})"
    r"|cuda capability (\d\.\d)"
    r"|capability sm_(\d{2,3})\b"
)
_TOTAL = re.compile(
    r"[Tt]otal ?[Mm]emory: ?(\d[\d.]{0,20}[KMGT]i?B)|deviceMemorySize: ?(\d[\d.]{0,20}[KMGT]i?B)"
    r"|total capac\w{0,3}ty of (\d[\d.]{0,20} [KMGT]iB)"
    r"|; (\d[\d.]{0,20} [KMGT]iB) total capac\w{0,3}ty"
)
_FREE = re.compile(
    r"[Ff]ree ?[Mm]emory: ?(\d[\d.]{0,20}[KMGT]i?B)|of which (\d[\d.]{0,20} [KMGT]iB) is free"
    r"|; (\d[\d.]{0,20} [KMGT]iB) free|; (0) bytes free"
)
# From XGBoost, in bytes.
_FREE_BYTES = re.compile(r"^\W{0,9}Free memory: (\d{1,16})$")
_REPORTED = re.compile(r"total memory reported: (\d{6,17})\b")
# Since TensorFlow 2.16, printed after a cuDNN handle could not be created.
_USAGE = re.compile(r"Memory usage: (\d{1,16}) bytes free, (\d{1,16}) bytes total")
# Used and total, in nvidia-smi's table and in gpustat's.
TABLE_MEMORY = re.compile(
    r"\|\s{0,20}(\d{1,9})(?:MiB)?\s{0,20}/\s{0,20}(\d{1,9}) ?(?:MiB|MB)\s{0,20}\|"
)
_SMI_PROCESS = re.compile(
    r"\|\s{1,9}\d{1,3}\s{1,9}(?:\S{1,9}\s{1,9}\S{1,9}\s{1,9})?(\d{1,10})\s{1,9}[CG+M]{1,3}\s{1,9}(\S.{0,50}?)\s{1,50}(\d{1,9})MiB\s{0,9}\|"
)
_TORCH_PROCESS = re.compile(r"Process (\d{1,10}) has (\d[\d.]{0,20} [KMGT]iB) memory in use")
_DRIVER = re.compile(
    r"[Dd]river [Vv]ersion:? (\d{3}\.[\d.]{1,12}\d)"
    r"|kernel reported version is: (\d{3}[\d.]{1,12}\d)"
    r"|Kernel Module {1,9}(\d{3}[\d.]{1,12}\d)"
)


class LoggedProcess(NamedTuple):
    """A process on the GPU."""

    pid: Count
    """Its process ID."""
    name: str | None
    """Its name."""
    size_bytes: Bytes
    """The GPU memory that it uses."""


class LoggedCard(NamedTuple):
    """A GPU as the log describes it.  None means unknown."""

    name: str | None = None
    """Its name."""
    total_bytes: Bytes | None = None
    """Its total memory."""
    free_bytes: Bytes | None = None
    """The free memory when the process started."""
    limit_bytes: Bytes | None = None
    """The limit of TensorFlow's allocator."""
    compute_capability: str | None = None
    """For example 8.6."""
    driver: str | None = None
    """The driver's version."""
    holders: tuple[LoggedProcess, ...] = ()
    """The processes on the GPU, if the log lists them."""


class CardReader:
    """Watches a log for facts about the (first) GPU."""

    parts: Sequence[str] = ()
    phrases: Sequence[str] = (
        "name", "major minor", "total memory", "free memory", "totalMemory", "freeMemory",
        "with MB memory", "compute capability", "computeCapability", "deviceMemorySize",
        "of cuda capability", "capability sm",
        "streamexecutor device", "total capacity", "total capacty", "total memory reported",
        "MiB MiB", "MiB", "MB", "memory in use", "driver version", "kernel reported version",
        "kernel module", "memory limit", "memory usage bytes free",
    )  # fmt: skip

    def __init__(self) -> None:
        self._stated: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        self._holders: dict[int, LoggedProcess] = {}

    def see(self, line: LogLine) -> None:
        """Note each fact the first time that a line states it."""
        text = line.text[:2000]
        described, capability = _DESCRIBED.search(text), _CAPABILITY.search(text)
        if described is not None and ".py" not in text:
            self._stated.setdefault("name", (described["name"] or described["se"]).strip())
        if capability is not None:
            one, major, minor, old, compact = capability.groups()
            shown = f"{compact[:-1]}.{compact[-1]}" if compact else f"{major}.{minor}"
            self._stated.setdefault("capability", one or old or shown)
        driver = first_group(_DRIVER.search(text))
        if driver is not None:
            self._stated.setdefault("driver", driver)
        self._see_sizes(text)
        self._see_holders(text)

    def _see_sizes(self, text: str) -> None:
        created = _CREATED.search(text)
        if created is not None:
            self._sizes.setdefault("limit", int(created[1]) * MIB)
        for key, pattern in (("total", _TOTAL), ("free", _FREE)):
            size = logged_size(first_group(pattern.search(text)) or "")
            if size is not None:
                self._sizes.setdefault(key, size)
        plain = _FREE_BYTES.search(text)
        if plain is not None:
            self._sizes.setdefault("free", int(plain[1]))
        usage = _USAGE.search(text)
        if usage is not None:
            self._sizes.update(free=int(usage[1]), total=int(usage[2]))
        reported = _REPORTED.search(text)
        if reported is not None:
            self._sizes.setdefault("total", int(reported[1]))

    def _see_holders(self, text: str) -> None:
        memory, process = TABLE_MEMORY.search(text), _SMI_PROCESS.search(text)
        if process is not None:
            pid, name, used = process.groups()
            self._holders[int(pid)] = LoggedProcess(int(pid), name, int(used) * MIB)
        elif memory is not None:
            used_mib, total_mib = int(memory[1]), int(memory[2])
            self._sizes.setdefault("total", total_mib * MIB)
            self._sizes.setdefault("free", (total_mib - used_mib) * MIB)
        for pid, size in _TORCH_PROCESS.findall(text):
            self._holders[int(pid)] = LoggedProcess(int(pid), None, logged_size(size) or 0)

    def card(self) -> LoggedCard | None:
        """The GPU; None if the log does not mention one."""
        if not (self._stated or self._sizes or self._holders):
            return None
        return LoggedCard(
            self._stated.get("name"),
            self._sizes.get("total"),
            self._sizes.get("free"),
            self._sizes.get("limit"),
            self._stated.get("capability"),
            self._stated.get("driver"),
            tuple(self._holders.values()),
        )
