"""The result of an examination, as plain values; the text, the JSON and the page all show it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, NamedTuple, get_args

from gpuconf.basics.display import shown_in_notebooks
from gpuconf.basics.json_shape import Bytes, Count, FieldRule, json_shape
from gpuconf.commands.doctor.finding import Finding, Status
from gpuconf.commands.doctor.probe_results import LiveProbe, MeasuredHolder, MeasuredRun

BAR_PARTS = ("others", "yours", "allowed", "left")


class MemoryBar(NamedTuple):
    """A GPU's memory in four parts, in bytes, which add up to its total."""

    others_bytes: Bytes
    """In use, but not by this user's processes as far as the driver reports."""
    ours_bytes: Bytes
    """In use by this user's processes."""
    may_take_bytes: Bytes
    """Free memory that the profile lets a program use which starts now."""
    kept_free_bytes: Bytes
    """Free memory that such a program would leave."""

    @property
    def total_bytes(self) -> int:
        """The total memory of the GPU."""
        return sum(self)

    @staticmethod
    def meanings(profile: str) -> tuple[str, ...]:
        """Human-readable descriptions of the four parts, the same on a terminal and on the page."""
        return ("others", "yours", f"allowed by {profile}", "left free")


@json_shape(
    hidden=("compute_capability",),
    computed=("capability",),
    renamed={"capability": "compute_capability"},
)
class CardReport(NamedTuple):
    """A GPU, or in ``instances`` one of its MIG instances, as the report shows it."""

    index: Count  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """The index in nvidia-smi; a MIG instance has its GPU's."""
    uuid: str | None = None
    """As printed by nvidia-smi -L."""
    name: str | None = None
    """The GPU's name."""
    total_bytes: Bytes | None = None
    """The total memory, without the part that the driver reserves."""
    free_bytes: Bytes | None = None
    """The free memory at that moment."""
    used_bytes: Bytes | None = None
    """The memory in use."""
    promised_bytes: Bytes | None = None
    """Free memory that leases may still use; None if nothing is leased."""
    compute_capability: tuple[int, int] | None = None
    display_active: bool | None = None
    """Whether it drives a display."""
    pci_bus_id: str | None = None
    """Its PCI address."""
    is_visible: bool | None = None
    """Whether a CUDA program would see it."""
    limit_bytes: Bytes | None = None
    """The profile's limit for one program; None if there is none, or the GPU is not used."""
    arithmetic: tuple[str, ...] = ()
    """The calculation of the limit."""
    bar: MemoryBar | None = None
    """Its memory in parts; None if unknown."""
    holders: tuple[MeasuredHolder, ...] | None = None
    """The holders of its memory or of leases; None if the driver reports none and nothing is
    leased.
    """
    remarks: tuple[str, ...] = ()
    """Remarks for people: "drives the display", "lost"."""
    instances: tuple[CardReport, ...] = ()
    """Its MIG instances."""

    @property
    def capability(self) -> Annotated[str, FieldRule(pattern=r"^[0-9]+\.[0-9]+$")] | None:
        """Its compute capability, such as 8.6."""
        return None if self.compute_capability is None else "{}.{}".format(*self.compute_capability)


class ProfileInForce(NamedTuple):
    """The profile used for the plan: its name, its file, and why it applies."""

    name: str
    """Its name."""
    source: str | None = None
    """Its file."""
    because: str | None = None
    """Why it applies."""


@shown_in_notebooks
@json_shape(
    hidden=("versions", "environment", "probe"),
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

    ``versions`` and ``environment`` are (name, value) pairs in display order.
    """

    findings: tuple[Finding, ...]
    """The findings of the checks, in order."""
    cards: tuple[CardReport, ...] = ()
    """The machine's GPUs."""
    made_at: str = ""
    """ISO 8601 with the time zone."""
    command: str = "gpuconf doctor"
    """The command that was run."""
    versions: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    profile: ProfileInForce | None = None
    """The profile that applies; None if it is rejected."""
    probe: tuple[MeasuredRun, ...] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings for each of the five statuses."""
        found = Counter(finding.status for finding in self.findings)
        return {status: found[status] for status in ("fail", "warn", "crash", "ok", "skip")}

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that need attention, worst first."""
        worst = ("fail", "warn", "crash")
        found = [finding for finding in self.findings if finding.status in worst]
        return tuple(sorted(found, key=lambda finding: worst.index(finding.status)))

    @property
    def is_of_many_files(self) -> bool:
        """Whether there are findings in several scripts."""
        return len({place.file for each in self.findings for place in each.places}) > 1

    @property
    def all_clear(self) -> str:
        """The sentence for a report without problems; it covers only what was checked."""
        groups = {finding.id.partition(".")[0] for finding in self.findings}
        if groups == {"source"}:
            return "none of the patterns looked for was found"
        return f"No problems found{' on this machine' if 'source' in groups else ''}."

    def exit_code(self, *, strict: bool = False) -> int:
        """0 fine, 1 a check failed (with ``strict``, also on a warning), 3 a check crashed."""
        counts = self.counts
        if counts["fail"] or (strict and counts["warn"]):
            return 1
        return 3 if counts["crash"] else 0

    @property
    def by_status(self) -> dict[Status, Count]:
        """The number of findings for each status."""
        return {status: self.counts[status] for status in get_args(Status)}

    @property
    def version_of(self) -> dict[str, str]:
        """Installed versions by name."""
        return dict(self.versions)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that configure GPUs and frameworks, with their values."""
        return dict(self.environment)

    @property
    def measured(self) -> LiveProbe | None:
        """The measurements of --probe; None without it."""
        return None if self.probe is None else LiveProbe(self.probe)
