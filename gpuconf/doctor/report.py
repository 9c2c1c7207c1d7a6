"""What an examination found, as plain values: the text, the JSON and the page all show this."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from gpuconf.doctor.finding import Finding
from gpuconf.units import sized

if TYPE_CHECKING:  # the probe's package is loaded where it is asked for
    from gpuconf.doctor.live.record import MeasuredRun


class Holder(NamedTuple):
    """A process that holds memory on a card.  Unknown is None.

    ``user`` is the owner's name, ``is_ours`` whether that is who runs the doctor, ``since`` the
    time of its start as ISO 8601 with the zone, ``state`` the kernel's letter for what it does
    (R, S, D, T stopped, Z dead), ``kind`` compute or graphics.
    """

    pid: int
    name: str | None = None
    user: str | None = None
    used_bytes: int | None = None
    since: str | None = None
    kind: str = "compute"
    state: str | None = None
    is_ours: bool | None = None

    def __str__(self) -> str:
        """One line for people."""
        held = sized(self.used_bytes) if self.used_bytes is not None else "an unknown size"
        user = f" of {self.user}" if self.user else ""
        since = f" since {self.since[:16].replace('T', ' ')}" if self.since else ""
        return f"pid {self.pid} {self.name or '(name unknown)'}{user} holds {held}{since}"

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return dict(self._asdict())


BAR_PARTS = ("others", "yours", "allowed", "left")


class MemoryBar(NamedTuple):
    """A card's memory in four parts, in bytes, which sum to its total.

    ``others_bytes`` and ``ours_bytes`` are in use: by this user's processes, as far as the driver
    tells them apart, and by all else.  ``may_take_bytes`` is what the profile would give to a
    program that starts now, ``kept_free_bytes`` what it would leave.
    """

    others_bytes: int
    ours_bytes: int
    may_take_bytes: int
    kept_free_bytes: int

    @property
    def total_bytes(self) -> int:
        """The whole card."""
        return sum(self)

    @staticmethod
    def meanings(profile: str) -> tuple[str, ...]:
        """The four parts in words for people, the same on a terminal and on the page."""
        return ("others", "yours", f"allowed by {profile}", "left free")

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return dict(self._asdict())


class Card(NamedTuple):
    """A GPU, or under ``instances`` a MIG instance of one, as the report shows it.

    ``bar`` is None where the memory is unknown.  ``limit_bytes`` is the profile's, None where
    there is none or the card is not used; ``arithmetic`` the sum that made it.  ``is_visible``
    says whether a program would see the card, ``remarks`` are words for people: "drives the
    display", "lost".
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    uuid: str | None = None
    name: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    used_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    display_active: bool | None = None
    pci_bus_id: str | None = None
    is_visible: bool | None = None
    limit_bytes: int | None = None
    arithmetic: tuple[str, ...] = ()
    bar: MemoryBar | None = None
    holders: tuple[Holder, ...] | None = None
    remarks: tuple[str, ...] = ()
    instances: tuple[Card, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return {
            **self._asdict(),
            "compute_capability": _joined(self.compute_capability),
            "arithmetic": list(self.arithmetic),
            "bar": self.bar.as_dict() if self.bar else None,
            "holders": None if self.holders is None else [h.as_dict() for h in self.holders],
            "remarks": list(self.remarks),
            "instances": [instance.as_dict() for instance in self.instances],
        }


class ProfileInForce(NamedTuple):
    """The profile that the plan was made for: its name, its file, and why this one."""

    name: str
    source: str | None = None
    because: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return dict(self._asdict())


class Report(NamedTuple):
    """A whole examination.

    ``findings`` are in the order of the checks; ``made_at`` is ISO 8601 with the zone;
    ``command`` what was run; ``versions`` pairs of a name and a version, in the order to show;
    ``environment`` the variables that steer GPUs and frameworks, as they are set; ``probe`` what
    --probe measured, None where it was not asked for.
    """

    findings: tuple[Finding, ...]
    cards: tuple[Card, ...] = ()
    made_at: str = ""
    command: str = "gpuconf doctor"
    versions: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    profile: ProfileInForce | None = None
    probe: tuple[MeasuredRun, ...] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How many findings there are of each status; all five statuses are there."""
        found = Counter(finding.status for finding in self.findings)
        return {status: found[status] for status in ("fail", "warn", "crash", "ok", "skip")}

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What a person must look at, the worst first."""
        worst = ("fail", "warn", "crash")
        found = [finding for finding in self.findings if finding.status in worst]
        return tuple(sorted(found, key=lambda finding: worst.index(finding.status)))

    @property
    def all_clear(self) -> str:
        """What to say where there is no problem: no more than was looked at."""
        groups = {finding.id.partition(".")[0] for finding in self.findings}
        if groups == {"source"}:
            return "none of the patterns looked for was found"
        return "nothing is wrong with this machine" if "source" in groups else "nothing is wrong"

    def exit_code(self, *, strict: bool = False) -> int:
        """0 fine, 1 a check failed (with ``strict`` a warning too), 3 a check broke down."""
        counts = self.counts
        if counts["fail"] or (strict and counts["warn"]):
            return 1
        return 3 if counts["crash"] else 0

    def as_dict(self) -> dict[str, object]:
        """The JSON document, less ``schema_version``: configs/doctor.schema.json describes it."""
        return {
            "made_at": self.made_at,
            "command": self.command,
            "counts": self.counts,
            "findings": [finding.as_dict() for finding in self.findings],
            "gpus": [card.as_dict() for card in self.cards],
            "profile": self.profile.as_dict() if self.profile else None,
            "versions": dict(self.versions),
            "environment": dict(self.environment),
            "probe": None if self.probe is None else {"runs": [r.as_dict() for r in self.probe]},
        }


def _joined(capability: tuple[int, int] | None) -> str | None:
    return None if capability is None else f"{capability[0]}.{capability[1]}"
