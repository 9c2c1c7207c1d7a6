"""Assemble the agent's parts, for the whole program or only for its first steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.commands.rehearse.agent import user_code
from gpuconf.commands.rehearse.agent.batches import BatchWatcher
from gpuconf.commands.rehearse.agent.calls import Calls
from gpuconf.commands.rehearse.agent.ending import Ending
from gpuconf.commands.rehearse.agent.files import Files
from gpuconf.commands.rehearse.agent.guards import LoopGuards
from gpuconf.commands.rehearse.agent.memory import MemoryTape
from gpuconf.commands.rehearse.agent.names import Names
from gpuconf.commands.rehearse.agent.phases import Phases
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.commands.rehearse.agent.steps import Steps


class Parts(NamedTuple):
    """``calls`` and ``guards`` shorten loops; they are None if the first steps end the program."""

    memory: MemoryTape
    phases: Phases
    ending: Ending
    steps: Steps
    batches: BatchWatcher
    calls: Calls | None = None
    guards: LoopGuards | None = None
    files: Files | None = None

    def before_training(self) -> None:
        """From here on, files are diverted."""
        if self.files is not None:
            self.files.divert()


def assemble(record: AgentRecord, orders: dict[str, Any]) -> Parts:
    """Create the parts that the orders require; no user code is read yet."""
    return _for_all(record, orders) if orders["whole"] else _for_the_first_steps(record, orders)


def _for_the_first_steps(record: AgentRecord, orders: dict[str, Any]) -> Parts:
    memory = MemoryTape(record)
    phases, names = Phases(record, memory, whole=False), Names(record)
    ending = Ending(record, memory, phases, parent=orders["parent"], before_the_end=names.write)

    def counted() -> None:
        if phases.steps >= orders["steps"]:
            ending.after_the_steps()

    steps = Steps(record, memory, phases, names, when_counted=counted)
    batches = BatchWatcher(record, names, wanted=orders["batch"], when_over=ending.after_the_steps)
    return Parts(memory, phases, ending, steps, batches)


def _for_all(record: AgentRecord, orders: dict[str, Any]) -> Parts:
    memory = MemoryTape(record)
    phases, names = Phases(record, memory, whole=True), Names(record)
    ending = Ending(record, memory, phases, parent=orders["parent"], before_the_end=names.write)
    files = Files(record, when_stuck=ending.after_the_steps)

    def counted() -> None:
        files.divert()
        guards.counted()

    steps = Steps(record, memory, phases, names, when_counted=counted)
    guards = LoopGuards(
        steps,
        phases,
        most=orders["steps"],
        when_cut=files.divert,
        when_stuck=ending.after_the_steps,
    )
    calls = Calls(phases, steps, guards, names, before_training=files.divert)
    batches = BatchWatcher(
        record,
        names,
        wanted=orders["batch"],
        when_over=ending.after_the_steps,
        calls={"fit": calls.fit, "train_on_batch": calls.train_on_batch},
    )
    calls.batches = batches
    guards.install()
    files.watch()
    user_code.watch_imports()
    return Parts(memory, phases, ending, steps, batches, calls, guards, files)
