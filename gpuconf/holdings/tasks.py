"""Find the Ray or Slurm tasks of processes on cards, from /proc and from the scheduler itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gpuconf.hardware.inventory import RAY, SLURM
from gpuconf.hardware.schedulers import Task, task_of
from gpuconf.holdings.document import Holding, Holdings, SchedulerTask
from gpuconf.holdings.scheduler_names import Names, NotAskedError, ray_names, slurm_names

# Asks a scheduler about the tasks of processes, by pid; raises NotAskedError.
Ask = Callable[[Mapping[int, Task]], Names]
_ASK: Mapping[str, Ask] = {RAY: ray_names, SLURM: slurm_names}


def with_tasks(
    holdings: Holdings, schedulers: Sequence[str], ask: Mapping[str, Ask] = _ASK
) -> Holdings:
    """Add the task of each process that one of ``schedulers`` has started to ``holdings``."""
    known: dict[int, SchedulerTask] = {}
    unasked = []
    for scheduler in schedulers:
        found = {
            each.pid: task
            for each in _processes(holdings)
            if each.pid not in known and (task := task_of(each.pid, scheduler)) is not None
        }
        named = {pid: SchedulerTask(scheduler, task.name) for pid, task in found.items()}
        if found:
            try:
                named |= ask[scheduler](found)
            except NotAskedError as error:
                unasked.append(str(error))
        known |= named
    cards = (
        card._replace(
            processes=tuple(
                each if each.is_elsewhere else each._replace(task=known.get(each.pid))
                for each in card.processes
            )
        )
        for card in holdings.cards
    )
    return holdings._replace(cards=tuple(cards), unasked=tuple(unasked))


def _processes(holdings: Holdings) -> Iterator[Holding]:
    """Yield the processes whose pid belongs to this namespace."""
    for card in holdings.cards:
        yield from (each for each in card.processes if not each.is_elsewhere)
