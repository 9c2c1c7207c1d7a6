"""What an Xid, the number of an error in the driver's messages, means; `xids.yaml` is the table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml


class XidMeaning(NamedTuple):
    """What happened, what to do, and the command for it; ``gpu_fault`` if no program is to
    blame."""

    means: str
    remedy: str
    command: str
    gpu_fault: bool = False


@cache
def known_xids() -> Mapping[int, XidMeaning]:
    """The table, by number."""
    text = files(__package__).joinpath("xids.yaml").read_text("utf-8")
    return {number: XidMeaning(**entry) for number, entry in yaml.safe_load(text).items()}
