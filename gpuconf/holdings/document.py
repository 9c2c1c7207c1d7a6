"""Who holds what of each card, and who waits, as plain values: the text and the JSON show this."""

from __future__ import annotations

from typing import Annotated, Any

from gpuconf.json_shape import Bytes, Count, FieldRule, FromOne, json_shape
from gpuconf.records import NamedTuple


class SchedulerTask(NamedTuple):
    """What a scheduler runs in a process.  Unknown is None."""

    scheduler: Annotated[str, FieldRule(enum=("ray", "slurm"))]
    """Which one."""
    name: str
    """Ray's name of the worker, such as Model.train; Slurm's job and step, such as 12.0."""
    actor: str | None = None
    """The name that a program gave to its actor of Ray's, else its id."""
    job: str | None = None
    """Ray's id of the job; Slurm's name of it."""
    user: str | None = None
    """Whose job it is, by Slurm."""


class Holding(NamedTuple):
    """A process with a lease or memory on a card.  Unknown is None."""

    pid: Count
    """Its number."""
    user: str | None = None
    """The owner's account."""
    program: str | None = None
    """The script that it runs, else the program's name."""
    profile: str | None = None
    """Its gpuconf profile; None also for a program without gpuconf."""
    lease_bytes: Bytes | None = None
    """What it may take; None without a lease."""
    used_bytes: Bytes | None = None
    """What it and its children have taken; None where the driver does not say."""
    since: str | None = None
    """When the lease was taken, else when the process started; ISO 8601 with the zone."""
    kind: Annotated[str, FieldRule(enum=("compute", "graphics"))] = "compute"
    """What it does on the card."""
    is_ours: bool | None = None
    """Whether it belongs to the user who asks."""
    is_elsewhere: bool = False
    """Whether its number counts in another pid namespace, as that of a container."""
    pids: tuple[Count, ...] | None = None
    """The processes that have taken it, as the driver numbers them; None where that is unknown."""
    task: SchedulerTask | None = None
    """What it is to the scheduler that was asked for with --ray or --slurm."""


class UserHoldings(NamedTuple):
    """What another user's processes hold of a card, in one sum.  Unknown is None."""

    user: str | None
    """The account; None for processes whose owner is not known."""
    process_count: FromOne
    """How many processes."""
    lease_bytes: Bytes | None
    """What they may take; None where none of them has a lease."""
    used_bytes: Bytes | None
    """What they have taken; None where the driver does not say it of each."""


class LeaseBar(NamedTuple):
    """A card's memory in four parts, in bytes, which sum to its total."""

    others_bytes: Bytes
    """In use, not by this user's processes as far as the driver reports."""
    ours_bytes: Bytes
    """In use by this user's processes."""
    promised_bytes: Bytes
    """Leased, and not taken yet."""
    free_bytes: Bytes
    """Free, and leased to nobody."""


class CardHoldings(NamedTuple):
    """A GPU or a MIG instance, and who holds memory of it.  Unknown is None."""

    label: str
    """As the tables call it: nvidia-smi's number, 0.1 for the second MIG instance of card 0."""
    index: Count | None = None  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """As nvidia-smi counts, a MIG instance as its card; None where NVML does not list it."""
    mig_ids: tuple[Count, Count] | None = None
    """GPU instance and compute instance of a MIG instance."""
    uuid: str | None = None
    """As nvidia-smi -L prints it."""
    name: str | None = None
    """The card's name."""
    total_bytes: Bytes | None = None
    """All of it, less what the driver reserves."""
    free_bytes: Bytes | None = None
    """What NVML calls free; leases are not taken off."""
    bar: LeaseBar | None = None
    """Its memory in parts; None where it is unknown."""
    lists_processes: bool = False
    """Whether the driver lists processes; where it does not, only leases are known."""
    unlisted_bytes: Bytes | None = None
    """In use, by none of the processes that the driver lists: a display, programs in another
    container or virtual machine, and the driver itself."""
    processes: tuple[Holding, ...] = ()
    """This user's processes on it, or everybody's with --all-users."""
    others: tuple[UserHoldings, ...] = ()
    """A sum for each other user; empty with --all-users."""


class LinePlace(NamedTuple):
    """A place in the line for one card."""

    label: str
    """The card, as in `gpus`."""
    uuid: str | None
    """As nvidia-smi -L prints it."""
    place: FromOne
    """1 is who comes next."""
    least_bytes: Bytes
    """The least that the program can work with, its context included."""


class WaitingProcess(NamedTuple):
    """A program that waits for memory.  Unknown is None."""

    pid: Count
    """Its number."""
    user: str | None
    """The owner's account."""
    program: str | None
    """The script that it runs, else the program's name."""
    profile: str | None
    """Its gpuconf profile."""
    since: str | None
    """Since when it waits; ISO 8601 with the zone."""
    is_ours: bool | None
    """Whether it belongs to the user who asks."""
    is_elsewhere: bool
    """Whether its number counts in another pid namespace, as that of a container."""
    places: tuple[LinePlace, ...]
    """Its place in the line of each card that would do."""


class LedgerState(NamedTuple):
    """The folder of leases."""

    path: str | None = None
    """The folder; None where there is none."""
    problem: str | None = None
    """Why no lease can be seen."""
    is_private: bool = False
    """Whether only the programs of this container use it."""


@json_shape(renamed={"cards": "gpus"})
class Holdings(NamedTuple):
    """Who holds what of each card, and who waits."""

    made_at: str
    """ISO 8601 with the zone."""
    cards: tuple[CardHoldings, ...] = ()
    """The machine's GPUs; of a card with MIG instances those; then cards that have leases only."""
    waiting: tuple[WaitingProcess, ...] = ()
    """Who waits in line, of all users, first the first."""
    ledger: LedgerState = LedgerState()
    """Where the leases come from."""
    problem: str | None = None
    """Why the driver could not be asked."""
    unasked: tuple[str, ...] = ()
    """Why a scheduler could not be asked; its tasks then have the names that /proc shows."""

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from gpuconf import rich_display

        return rich_display.html_of(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How IPython shows it as text."""
        from gpuconf import rich_display

        printer.text(rich_display.text_of(self))
