"""Xid lines: what the driver wrote to the kernel's log when a card or a program went wrong.

NVML reports Xids only to a listener.  The log is readable to the group adm on Debian and
Ubuntu, which their first user is in; elsewhere to root.
"""

from __future__ import annotations

import re

from gpuconf.doctor.facts import Xid
from gpuconf.doctor.gathering.files import read_text, under

_LOGS = ("/var/log/kern.log", "/var/log/syslog", "/var/log/messages", "/var/log/dmesg")
_LAST_BYTES = 256 * 1024
_BOOT = "Linux version "
# NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)")


def read_xids(root: str) -> tuple[Xid, ...] | None:
    """The Xids since the machine started, oldest first; None where no log can be read."""
    for path in _LOGS:
        text = read_text(under(root, path), last_bytes=_LAST_BYTES)
        if text is not None:
            return find_xids(text)
    return None


def find_xids(log: str) -> tuple[Xid, ...]:
    """The Xids in the text of a kernel log, from its last start on."""
    since_boot = log.rpartition(_BOOT)[2]
    matches = ((line, _XID.search(line)) for line in since_boot.splitlines())
    return tuple(Xid(int(match[2]), match[1], line.strip()) for line, match in matches if match)
