"""The doctor on many machines: what each says of itself, in one table.

Over ssh, or over Ray.  Nothing here carries words from machine to machine itself.
"""

from __future__ import annotations

# How long each machine may take; that of an idle one takes a second or two.
NODE_TIMEOUT_S = 60.0
