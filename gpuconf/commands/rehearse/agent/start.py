"""Start the agent in one process: set hooks for the frameworks, and follow the orders.

Also run MirroredStrategy without NCCL.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from gpuconf.commands.rehearse.agent.cells import MODULE, Cells
from gpuconf.commands.rehearse.agent.parts import assemble
from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.commands.rehearse.agent.sessions import Sessions
from gpuconf.session import import_hook
from gpuconf.support.keras_api import devices, training
from gpuconf.support.keras_api.patching import wrap

_KERAS = ("keras", "tf_keras")
_OTHERS = {"torch": "PyTorch", "jax": "JAX"}  # their steps are not counted
_NOTE = (
    "MirroredStrategy adds up gradients with HierarchicalCopyAllReduce here: simulated GPUs have "
    "no NCCL, whose buffers on real ones are not in the peak"
)


def start(folder: str, orders: dict[str, Any]) -> None:
    """Do everything that is possible before the program starts; does not import TensorFlow."""
    record = AgentRecord(folder)
    parts = assemble(record, orders)
    record.update(argv=[sys.executable, *sys.orig_argv[1:]])

    refusal = None if orders["profile"] is None else _apply_profile(orders["profile"])

    def on_tensorflow(tensorflow: ModuleType) -> None:
        if refusal is not None:
            parts.ending.refuse(*refusal)
        record.update(tensorflow=tensorflow.__version__)
        parts.memory.start()
        parts.ending.watch_errors()
        parts.steps.watch_functions()
        Sessions(record, parts.phases, parts.steps, before_training=parts.before_training).watch()
        if parts.files is not None:
            parts.files.watch_frameworks()
        _do_without_nccl(record)

    def on_keras(keras: ModuleType) -> None:
        record.update(keras=[keras.__name__, _version(keras)])
        backend = training.backend_of(keras)
        if backend != "tensorflow":
            parts.ending.refuse("backend", f"Keras uses the {backend} backend here")
        parts.steps.watch_optimizers(keras.__name__)
        parts.batches.watch(keras.__name__)
        if parts.calls is not None:
            parts.calls.watch(keras.__name__)
        if parts.files is not None:
            parts.files.watch_frameworks()

    def on_other(framework: str, _: ModuleType) -> None:
        record.append("others", framework)

    # Our own hooks, because gpuconf.auto sets its own for the same names in the same process.
    hooks = import_hook.ImportHooks()
    hooks.set("tensorflow", on_tensorflow)
    for name in _KERAS:
        hooks.set(name, on_keras)
    for name, framework in _OTHERS.items():
        hooks.set(name, partial(on_other, framework))

    cells = Cells(record, parts.memory, parts.ending, parts.files, folder)
    hooks.set(MODULE, cells.watch)

    # A finder that the program or its sitecustomize puts in front of ours would bypass it.
    def keep_first(event: str, args: tuple[Any, ...]) -> None:
        if event == "import" and args[0] in ("tensorflow", *_KERAS):
            hooks.keep_first(args[0])

    sys.addaudithook(keep_first)
    os.register_at_fork(after_in_child=record.begin_again)


def _apply_profile(profile: str) -> tuple[str, str] | None:
    """Do what ``import gpuconf.auto`` at the top of the program would do.

    Returns the error if that fails. The error is raised only if TensorFlow is imported, because a
    helper process may not need it.
    """
    from gpuconf.errors import GpuconfError

    os.environ["GPUCONF_PROFILE"] = profile
    try:
        import gpuconf.auto

        gpuconf.plan()  # raises a shortage now, not at TensorFlow's import
    except ImportError as error:  # PyYAML, in a Python without gpuconf's dependencies
        return "dependency", str(error)
    except GpuconfError as error:
        return "profile", str(error)
    return None


def _version(module: ModuleType) -> str:
    version = getattr(module, "__version__", None)
    return str(version() if callable(version) else version)


def _do_without_nccl(record: AgentRecord) -> None:
    """Replace the reduction of each MirroredStrategy that would use NCCL, and record a note."""

    def made(original: Any, extended: Any, *args: Any, **kwargs: Any) -> None:
        original(extended, *args, **kwargs)
        # If this TensorFlow has other names, NCCL's own error occurs.
        with suppress(ImportError, AttributeError):
            if devices.do_without_nccl(extended):
                record.append("notes", _NOTE)

    wrap(training.strategy_class(), "__init__", made)
