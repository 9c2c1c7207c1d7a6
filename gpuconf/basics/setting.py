"""What was requested of a framework, what took effect, or why not: the lines of an Activation."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.terminal import to_paste


class Setting(NamedTuple):
    """The outcome of one setting."""

    name: str
    """The setting and its target: ``memory_limit GPU:0``, ``TF_FORCE_GPU_ALLOW_GROWTH``."""
    requested: str
    """The requested value."""
    effective: str | None = None
    """The value read back; None until the framework is imported and has created its devices."""
    why_not: str | None = None
    """Why the two differ; None if they do not."""
    variable: str | None = None
    """The environment variable that caused the difference; None if there is another cause."""

    @property
    def status(self) -> str:
        """``ok``, ``pending`` (not known yet) or ``differs``."""
        if self.why_not is not None:
            return "differs"
        return "pending" if self.effective is None else "ok"

    def __str__(self) -> str:
        if self.why_not is not None:
            seen = "nothing" if self.effective is None else self.effective
            why = to_paste(self.why_not)
            return f"{self.name}: requested {self.requested}, got {seen}: {why}"
        if self.effective is None:
            return f"{self.name}: requested {self.requested}, not yet in effect"
        return f"{self.name}: {self.effective}"

    def as_dict(self) -> dict[str, object]:
        """Return plain data for ``--json`` and bug reports."""
        return {**self._asdict(), "status": self.status}
