"""Whether anything listens at the address of a Ray cluster.

Ray itself tries a silent address for many minutes, which no option of it changes.
"""

from __future__ import annotations

import contextlib
import socket

_PATIENCE_S = 10.0


def silence_of(address: str) -> str | None:
    """Why nothing answers at ``address``; None where something listens.

    ``address`` is as Ray takes it: HOST:PORT, ray://HOST:PORT, http://HOST:PORT.  None also for
    what Ray looks up itself, such as "auto", and for what is not an address, which Ray refuses.
    """
    host, _, port = address.rpartition("://")[2].rstrip("/").rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()):
        return None
    try:
        with contextlib.closing(
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S)
        ):
            return None
    except TimeoutError:
        return f"nothing answers within {_PATIENCE_S:g} s"
    except (OSError, OverflowError, UnicodeError) as error:  # refused, no such host, no such port
        return getattr(error, "strerror", None) or str(error)
