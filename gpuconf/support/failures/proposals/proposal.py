"""A change that somebody may make after a failed run."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Proposal(NamedTuple):
    """A change: the action, the reason, and something to paste."""

    title: str
    """The action."""
    reason: str
    """The reason, with the arithmetic if there is any."""
    kind: Literal["profile", "code", "command", "batch"]
    """The language of ``paste``: profile is YAML, code and batch are Python, command is shell."""
    paste: str
    """The text to paste; may have several lines."""
