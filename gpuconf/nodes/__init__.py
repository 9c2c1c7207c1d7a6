"""Run the doctor on many machines and show their reports in one table.

This works over ssh or over Ray.  Nothing here sends data between machines itself.
"""

from __future__ import annotations

# Time limit for each machine; an idle one takes a second or two.
NODE_TIMEOUT_S = 60.0
