"""The Activation: what was requested for this process, what took effect, and why not."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.basics.setting import Setting
from gpuconf.planner import Plan, label
from gpuconf.profile import Profile


class Activation:
    """What gpuconf did to this process; grows as frameworks are imported and create devices.

    ``plan`` is None until a framework is imported or another program is started.  It is also None
    if gpuconf is switched off; ``disabled`` then says why.  The final plan is made when a framework
    lists or creates its devices, so it may replace an earlier one.  ``environment`` holds the
    variables that were set.  ``session`` is the version-1 session that was installed into Keras, or
    None. ``settings`` holds every setting's outcome, in the order first requested; see
    :class:`gpuconf.basics.setting.Setting`.
    """

    def __init__(self, profile: Profile | None = None, *, disabled: str | None = None) -> None:
        self._profile = profile
        self.disabled = disabled
        self.plan: Plan | None = None
        self.environment: dict[str, str] = {}
        self.session: object = None
        self._settings: dict[str, Setting] = {}
        self._of_plan: tuple[str, ...] = ()

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The outcome of every setting so far."""
        return tuple(self._settings.values())

    @property
    def profile(self) -> str | None:
        """The profile's name."""
        return None if self._profile is None else self._profile.name

    @property
    def source(self) -> str | None:
        """The profile's file."""
        return None if self._profile is None else self._profile.source

    def record(self, setting: Setting) -> None:
        """Add a setting's outcome; a later one with the same name replaces it."""
        self._settings[setting.name] = setting

    def put_in_force(
        self, plan: Plan | None, environment: Mapping[str, str], settings: list[Setting]
    ) -> None:
        """Replace the plan and the variables that were set for it, with their outcomes."""
        self.plan, self.environment = plan, dict(environment)
        for name in self._of_plan:
            self._settings.pop(name, None)
        self._of_plan = tuple(setting.name for setting in settings)
        for setting in settings:
            self.record(setting)

    def as_dict(self) -> dict[str, object]:
        """Return plain data, for bug reports."""
        return {
            "profile": self.profile,
            "disabled": self.disabled,
            "environment": dict(self.environment),
            "settings": [setting.as_dict() for setting in self.settings],
        }

    def __str__(self) -> str:
        if self._profile is None:
            return f"gpuconf is off: {self.disabled}"
        source = self._profile.source
        lines = [f"profile {self.profile}" + (f" ({source})" if source else "")]
        lines += self._plan_lines()
        lines += [f"{setting.status:8}{setting}" for setting in self.settings]
        return "\n".join(lines)

    def _plan_lines(self) -> list[str]:
        if self.plan is None:
            return [
                "no plan yet: it is created when a framework is imported (`gpuconf plan` shows it)"
            ]
        lines = []
        for gpu in self.plan.gpus:
            lines += [label(gpu.gpu), *(f"  {line}" for line in gpu.sums)]
        return [*lines, *(f"note: {note}" for note in self.plan.notes)]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        from gpuconf.basics import display

        return display.html_of(self)
