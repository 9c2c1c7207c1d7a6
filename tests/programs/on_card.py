"""What a piece of code did on the simulated card; the fixture that runs it is in conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuconf.simcard import CardSpec
from gpuconf.units import MIB

SPEC = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, count=2)


class Outcome(NamedTuple):
    """What the code told with ``tell(…)``, and all it and TensorFlow printed."""

    code: int
    told: dict[str, Any]
    log: str


RunOnCard = Callable[..., Outcome]
