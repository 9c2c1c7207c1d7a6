"""Begins the agent's work in one process: hooks for the frameworks, and what the orders say."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from gpuconf import import_hook
from gpuconf.rehearsal.agent import distributing, naming
from gpuconf.rehearsal.agent.batches import BatchWatcher
from gpuconf.rehearsal.agent.ending import Ending
from gpuconf.rehearsal.agent.memory import MemoryTape
from gpuconf.rehearsal.agent.record import AgentRecord
from gpuconf.rehearsal.agent.steps import Steps

_KERAS = ("keras", "tf_keras")


def start(folder: str, orders: dict[str, Any]) -> None:
    """Do all that can be done before the program begins; TensorFlow is not imported here."""
    record = AgentRecord(folder)
    memory = MemoryTape(record)

    def tell_names() -> None:
        model = naming.names_of(batches.models, steps.optimizers(), steps.variables.values())
        record.update(model=model)

    ending = Ending(record, memory, before_the_end=tell_names)
    batches = BatchWatcher(record, wanted=orders["batch"], when_over=ending.after_the_steps)
    steps = Steps(record, memory, most=orders["steps"], when_done=ending.after_the_steps)
    record.update(argv=_command_line())

    refusal = None if orders["profile"] is None else _apply_profile(orders["profile"])

    def on_tensorflow(tensorflow: ModuleType) -> None:
        if refusal is not None:
            ending.refuse(*refusal)
        record.update(tensorflow=tensorflow.__version__)
        memory.start()
        ending.watch_errors()
        steps.watch_functions()
        distributing.do_without_nccl(record)

    def on_keras(keras: ModuleType) -> None:
        record.update(keras=[keras.__name__, _version(keras)])
        backend = getattr(getattr(keras, "config", None), "backend", lambda: "tensorflow")()
        if backend != "tensorflow":
            record.append("notes", f"Keras computes with {backend}, which is not rehearsed")
            return
        steps.watch_optimizers(keras.__name__)
        batches.watch(keras.__name__)

    # Hooks of our own: gpuconf.auto, in the same process, sets its own for the same names.
    hooks = import_hook._ImportHooks()
    hooks.set("tensorflow", on_tensorflow)
    for name in _KERAS:
        hooks.set(name, on_keras)

    # A finder of the program's or of its sitecustomize, put in front of ours, would bypass it.
    def keep_first(event: str, args: tuple[Any, ...]) -> None:
        if event == "import" and args[0] in ("tensorflow", *_KERAS):
            hooks.keep_first(args[0])

    sys.addaudithook(keep_first)
    os.register_at_fork(after_in_child=record.begin_again)


def _apply_profile(profile: str) -> tuple[str, str] | None:
    """Do what the line ``import gpuconf.auto`` on top of the program would do.

    Return why that cannot be done.  It counts once TensorFlow is imported: a Python that only
    helps on the way may do without.
    """
    from gpuconf.errors import GpuconfError

    os.environ["GPUCONF_PROFILE"] = profile
    try:
        import gpuconf.auto

        gpuconf.plan()  # a shortage, which would come out where TensorFlow is imported
    except GpuconfError as error:
        return "profile", str(error)
    except ImportError as error:  # PyYAML, in a Python that gpuconf is not installed in
        return "dependency", str(error)
    return None


def _command_line() -> list[str]:
    return [sys.executable, *sys.orig_argv[1:]]


def _version(module: ModuleType) -> str:
    version = getattr(module, "__version__", None)
    return str(version() if callable(version) else version)
