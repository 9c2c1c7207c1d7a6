"""Begins the agent's work in one process: hooks for the frameworks, and what the orders say.

Also the names by which a report can say what memory was for, and MirroredStrategy without NCCL.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from gpuconf import import_hook
from gpuconf.keras_api import devices, training
from gpuconf.keras_api.layers import layers_of
from gpuconf.keras_api.patching import wrap
from gpuconf.keras_api.variables import bytes_of, name_of, optimizer_variables, path_of
from gpuconf.rehearsal.agent.batches import BatchWatcher
from gpuconf.rehearsal.agent.cells import MODULE, Cells
from gpuconf.rehearsal.agent.ending import Ending
from gpuconf.rehearsal.agent.memory import MemoryTape
from gpuconf.rehearsal.agent.record import AgentRecord
from gpuconf.rehearsal.agent.sessions import Sessions
from gpuconf.rehearsal.agent.steps import Steps

_KERAS = ("keras", "tf_keras")
_OTHERS = {"torch": "PyTorch", "jax": "JAX"}  # whose steps are not seen
_NOTE = (
    "MirroredStrategy adds gradients up by HierarchicalCopyAllReduce here: simulated cards have no "
    "NCCL, whose buffers on real ones are not in the peak"
)


def start(folder: str, orders: dict[str, Any]) -> None:
    """Do all that can be done before the program begins; TensorFlow is not imported here."""
    record = AgentRecord(folder)
    memory = MemoryTape(record)

    def tell_names() -> None:
        model = _names_of(batches.models, steps.optimizers(), steps.variables.values())
        record.update(model=model)

    ending = Ending(record, memory, before_the_end=tell_names)
    batches = BatchWatcher(record, wanted=orders["batch"], when_over=ending.after_the_steps)
    steps = Steps(record, memory, most=orders["steps"], when_done=ending.after_the_steps)
    record.update(argv=[sys.executable, *sys.orig_argv[1:]])

    refusal = None if orders["profile"] is None else _apply_profile(orders["profile"])

    def on_tensorflow(tensorflow: ModuleType) -> None:
        if refusal is not None:
            ending.refuse(*refusal)
        record.update(tensorflow=tensorflow.__version__)
        memory.start()
        ending.watch_errors()
        steps.watch_functions()
        Sessions(record, steps).watch()
        _do_without_nccl(record)

    def on_keras(keras: ModuleType) -> None:
        record.update(keras=[keras.__name__, _version(keras)])
        backend = getattr(getattr(keras, "config", None), "backend", lambda: "tensorflow")()
        if backend != "tensorflow":
            ending.refuse("backend", f"Keras computes with {backend} here")
        steps.watch_optimizers(keras.__name__)
        batches.watch(keras.__name__)

    def on_other(framework: str, _: ModuleType) -> None:
        record.append("others", framework)

    # Hooks of our own: gpuconf.auto, in the same process, sets its own for the same names.
    hooks = import_hook._ImportHooks()
    hooks.set("tensorflow", on_tensorflow)
    for name in _KERAS:
        hooks.set(name, on_keras)
    for name, framework in _OTHERS.items():
        hooks.set(name, partial(on_other, framework))

    hooks.set(MODULE, Cells(record, memory, ending, folder).watch)

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


def _version(module: ModuleType) -> str:
    version = getattr(module, "__version__", None)
    return str(version() if callable(version) else version)


def _names_of(
    models: Iterable[Any], optimizers: Iterable[Any], variables: Iterable[Any]
) -> dict[str, Any]:
    """Names of layers and optimizers, and the bytes of each weight and optimizer variable.

    A loop of the program's own shows no model: its layers are read from the variables' names.
    """
    models, optimizers, trained = list(models), list(optimizers), list(variables)
    layers = {name for model in models for name in _layers(model)}
    layers.update(_layer_of(variable) for variable in trained)
    weights = {id(each): each for model in models for each in model.weights}
    weights.update((id(each), each) for each in trained)
    slots = [each for optimizer in optimizers for each in optimizer_variables(optimizer)]
    return {
        "layers": sorted(layers - {""}),
        "optimizers": sorted({name_of(each) for each in optimizers}),
        "weights": [bytes_of(each) for each in weights.values()],
        "slots": [bytes_of(each) for each in slots if id(each) not in weights],
    }


def _layers(model: Any) -> list[str]:
    return [str(layer.name) for layer in layers_of(model)]


def _layer_of(variable: Any) -> str:
    """``c1`` of ``sequential/c1/kernel`` and of ``c1/kernel:0``."""
    return path_of(variable).rpartition("/")[0].rpartition("/")[2]


def _do_without_nccl(record: AgentRecord) -> None:
    """Give each MirroredStrategy that would use NCCL another way to reduce, and note that."""

    def made(original: Any, extended: Any, *args: Any, **kwargs: Any) -> None:
        original(extended, *args, **kwargs)
        # Where this TensorFlow has other names, NCCL's own error comes.
        with suppress(ImportError, AttributeError):
            if devices.do_without_nccl(extended):
                record.append("notes", _NOTE)

    wrap(training.strategy_class(), "__init__", made)
