"""The Activation: what was asked of this process, what took effect, and why not."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.errors import ShortageError
from gpuconf.planner import Plan, label
from gpuconf.settings import Setting


class Activation:
    """What gpuconf did to this process; grows as frameworks are imported and make devices.

    ``plan`` is None where gpuconf was switched off, and ``disabled`` says by what.
    ``environment`` holds the variables that were set, ``cuda_variables`` what
    CUDA reads as it stood after that, and ``session`` the version-1 session
    that was installed into Keras, None if none was.  ``settings`` holds every setting's fate,
    in the order first asked; see :class:`gpuconf.settings.Setting`.  ``put_off`` is the shortage
    that a worker process may live with as long as it makes no devices; ``is_worker`` says that
    multiprocessing started this process, which then gets no session before it asks for one.
    """

    def __init__(
        self,
        plan: Plan | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        cuda_variables: Mapping[str, str] | None = None,
        put_off: ShortageError | None = None,
        is_worker: bool = False,
        disabled: str | None = None,
    ) -> None:
        self.plan = plan
        self.disabled = disabled
        self.environment = dict(environment or {})
        self.cuda_variables = dict(cuda_variables or {})
        self.put_off = put_off
        self.is_worker = is_worker
        self.session: object = None
        self._settings: dict[str, Setting] = {}

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every setting's fate so far."""
        return tuple(self._settings.values())

    @property
    def profile(self) -> str | None:
        """The profile's name."""
        return None if self.plan is None else self.plan.profile.name

    def record(self, setting: Setting) -> None:
        """Add a setting's fate; a later one of the same name replaces it."""
        self._settings[setting.name] = setting

    def as_dict(self) -> dict[str, object]:
        """Plain data, for bug reports."""
        return {
            "profile": self.profile,
            "disabled": self.disabled,
            "environment": dict(self.environment),
            "settings": [setting.as_dict() for setting in self.settings],
        }

    def __str__(self) -> str:
        if self.plan is None:
            return f"gpuconf is off: {self.disabled}"
        source = self.plan.profile.source
        lines = [f"profile {self.profile}" + (f" ({source})" if source else "")]
        for gpu in self.plan.gpus:
            lines.append(label(gpu.gpu))
            lines += [f"  {line}" for line in gpu.arithmetic]
        lines += [f"note: {note}" for note in self.plan.notes]
        lines += [f"{setting.status:8}{setting}" for setting in self.settings]
        return "\n".join(lines)

    __repr__ = __str__
