"""Check whether anything listens at the address of a Ray cluster.

Ray itself retries an unreachable address for many minutes, and has no option to change that.
"""

from __future__ import annotations

import contextlib
import socket

_PATIENCE_S = 10.0


def silence_of(address: str) -> str | None:
    """Return why nothing answers at ``address``; None if something listens.

    ``address`` has one of Ray's forms: HOST:PORT, ray://HOST:PORT, http://HOST:PORT.  Also returns
    None for names that Ray resolves itself, such as "auto", and for invalid addresses, which Ray
    rejects.
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
    except (OSError, OverflowError, UnicodeError) as error:  # refused, unknown host, invalid port
        return getattr(error, "strerror", None) or str(error)
