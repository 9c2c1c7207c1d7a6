"""What an examination found, as plain values: the text, the JSON and the page all show this."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, get_args

from gpuconf.doctor.finding import Finding, Status
from gpuconf.doctor.measured import LiveProbe, MeasuredHolder, MeasuredRun
from gpuconf.json_shape import Bytes, Count, FieldRule, json_shape
from gpuconf.records import NamedTuple

BAR_PARTS = ("others", "yours", "allowed", "left")


class MemoryBar(NamedTuple):
    """A card's memory in four parts, in bytes, which sum to its total."""

    others_bytes: Bytes
    """In use, not by this user's processes as far as the driver reports."""
    ours_bytes: Bytes
    """In use by this user's processes."""
    may_take_bytes: Bytes
    """What the profile lets a program take that starts now."""
    kept_free_bytes: Bytes
    """What it would leave."""

    @property
    def total_bytes(self) -> int:
        """The whole card."""
        return sum(self)

    @staticmethod
    def meanings(profile: str) -> tuple[str, ...]:
        """The four parts in words for people, the same on a terminal and on the page."""
        return ("others", "yours", f"allowed by {profile}", "left free")


@json_shape(
    hidden=("compute_capability",),
    computed=("capability",),
    renamed={"capability": "compute_capability"},
)
class CardReport(NamedTuple):
    """A GPU, or under ``instances`` a MIG instance of one, as the report shows it."""

    index: Count  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """As nvidia-smi counts; a MIG instance has its card's."""
    uuid: str | None = None
    """As nvidia-smi -L prints it."""
    name: str | None = None
    """The card's name."""
    total_bytes: Bytes | None = None
    """All of it, less what the driver reserves."""
    free_bytes: Bytes | None = None
    """Free at that moment."""
    used_bytes: Bytes | None = None
    """In use."""
    promised_bytes: Bytes | None = None
    """What leases may still take of what is free; None where nothing is leased."""
    compute_capability: tuple[int, int] | None = None
    display_active: bool | None = None
    """Whether it drives a display."""
    pci_bus_id: str | None = None
    """Its address."""
    is_visible: bool | None = None
    """Whether a CUDA program would see it."""
    limit_bytes: Bytes | None = None
    """The profile's limit for one program; None where there is none or the card is not used."""
    arithmetic: tuple[str, ...] = ()
    """The sum that made the limit."""
    bar: MemoryBar | None = None
    """Its memory in parts; None where it is unknown."""
    holders: tuple[MeasuredHolder, ...] | None = None
    """Who holds memory or a lease on it; None where the driver does not say, and nothing is
    leased.
    """
    remarks: tuple[str, ...] = ()
    """For people: "drives the display", "lost"."""
    instances: tuple[CardReport, ...] = ()
    """Its MIG instances."""

    @property
    def capability(self) -> Annotated[str, FieldRule(pattern=r"^[0-9]+\.[0-9]+$")] | None:
        """Its compute capability, such as 8.6."""
        return None if self.compute_capability is None else "{}.{}".format(*self.compute_capability)


class ProfileInForce(NamedTuple):
    """The profile that the plan was made for: its name, its file, and why this one."""

    name: str
    """Its name."""
    source: str | None = None
    """Its file."""
    because: str | None = None
    """Why this one applies."""


@json_shape(
    hidden=("versions", "environment", "probe", "accounts"),
    computed=("by_status", "version_of", "variables", "measured"),
    renamed={
        "cards": "gpus",
        "by_status": "counts",
        "version_of": "versions",
        "variables": "environment",
        "measured": "probe",
    },
)
class Report(NamedTuple):
    """A whole examination.

    ``versions`` and ``environment`` are pairs of a name and a value, in the order to show.
    ``accounts`` are those that findings may name, in addition to the holders of cards.
    """

    findings: tuple[Finding, ...]
    """What the checks found, in their order."""
    cards: tuple[CardReport, ...] = ()
    """The machine's GPUs."""
    made_at: str = ""
    """ISO 8601 with the zone."""
    command: str = "gpuconf doctor"
    """What was run."""
    versions: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    profile: ProfileInForce | None = None
    """The profile that applies; None where it is refused."""
    probe: tuple[MeasuredRun, ...] | None = None
    accounts: tuple[str, ...] = ()

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
    def is_of_many_files(self) -> bool:
        """Whether findings stand in several scripts."""
        return len({place.file for each in self.findings for place in each.places}) > 1

    @property
    def all_clear(self) -> str:
        """What to say where there is no problem: no more than was looked at."""
        groups = {finding.id.partition(".")[0] for finding in self.findings}
        if groups == {"source"}:
            return "none of the patterns looked for was found"
        return "nothing is wrong with this machine" if "source" in groups else "nothing is wrong"

    def exit_code(self, *, strict: bool = False) -> int:
        """0 fine, 1 a check failed (with ``strict`` a warning too), 3 a check crashed."""
        counts = self.counts
        if counts["fail"] or (strict and counts["warn"]):
            return 1
        return 3 if counts["crash"] else 0

    @property
    def by_status(self) -> dict[Status, Count]:
        """How many findings have each status."""
        return {status: self.counts[status] for status in get_args(Status)}

    @property
    def version_of(self) -> dict[str, str]:
        """What is installed, by name."""
        return dict(self.versions)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that steer GPUs and frameworks, as they are set."""
        return dict(self.environment)

    @property
    def measured(self) -> LiveProbe | None:
        """What --probe measured; None without it."""
        return None if self.probe is None else LiveProbe(self.probe)

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from gpuconf import rich_display

        return rich_display.html_of(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How IPython shows it as text."""
        from gpuconf import rich_display

        printer.text(rich_display.text_of(self))
