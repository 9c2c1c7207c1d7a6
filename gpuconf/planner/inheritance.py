"""A parent process's choice of GPUs: the plan of its child stays within it.

gpuconf writes CUDA_VISIBLE_DEVICES, and a child inherits it.  Without this, a child that plans
again from the user's own list could use GPUs that the parent excluded.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.machine.cards.inventory import Gpu
from gpuconf.machine.cards.visible_devices import VisibleDevices

_SHOWS_NOTHING = ("", "-1", "NoDevFiles")


class Inherited(NamedTuple):
    """The CUDA_VISIBLE_DEVICES that a parent wrote, and the GPUs it names."""

    value: str
    visible: VisibleDevices

    def within(self, devices: tuple[Gpu, ...]) -> list[Gpu]:
        """Return those of ``devices`` that the parent chose, in the parent's order."""
        return [gpu for gpu in self.visible.devices if gpu in devices]


def hides_everything(chosen_by_parent: str) -> bool:
    """Whether the text alone hides every GPU."""
    return chosen_by_parent.split(",", maxsplit=1)[0].strip() in _SHOWS_NOTHING


def hidden_note(chosen_by_parent: str, why: str | None = None) -> str:
    """Return the note for a child that may see no GPU."""
    because = f" ({why})" if why else ""
    return (
        f"CUDA_VISIBLE_DEVICES={chosen_by_parent}, inherited from the parent process, "
        f"hides every GPU{because}"
    )
