"""The names by which a report can say what memory was for, gathered while their owners live.

Nothing is kept alive: a program that drops one model for the next has its memory back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from gpuconf.keras_api.jit import is_compiled
from gpuconf.keras_api.layers import layers_of
from gpuconf.keras_api.variables import bytes_of, name_of, optimizer_variables, path_of
from gpuconf.rehearsal.agent.record import AgentRecord


class Names:
    """Names of layers and optimizers, and the bytes of each weight and optimizer variable.

    A loop of the program's own shows no model: its layers are read from the variables' names.
    """

    def __init__(self, record: AgentRecord) -> None:
        self._record = record
        self.models: WeakSet[Any] = WeakSet()  # that were trained or called
        self.optimizers: WeakSet[Any] = WeakSet()  # that were applied
        self.kept: list[Any] = []  # of these, what nobody else would keep
        self.variables: WeakValueDictionary[int, Any] = WeakValueDictionary()  # to these, by id
        self._is_compiled: bool | None = None  # by XLA, any model that was trained or called
        self._layers: set[str] = set()
        self._applied: set[str] = set()
        self._weights: dict[int, int] = {}  # bytes by id
        self._slots: dict[int, int] = {}

    def gather(self) -> None:
        """Take note of what is there now, beside what was."""
        trained = list(self.variables.values())
        for model in list(self.models):
            self._is_compiled = bool(self._is_compiled) or is_compiled(model)
            self._layers.update(str(layer.name) for layer in layers_of(model))
            self._weights.update((id(each), bytes_of(each)) for each in model.weights)
        self._layers.update(_layer_of(variable) for variable in trained)
        self._weights.update((id(each), bytes_of(each)) for each in trained)
        for optimizer in list(self.optimizers):
            self._applied.add(name_of(optimizer))
            self._slots.update(
                (id(each), bytes_of(each)) for each in optimizer_variables(optimizer)
            )

    def write(self) -> None:
        """Gather for the last time, and put it all on record."""
        self.gather()
        model = {
            "is_compiled": self._is_compiled,
            "layers": sorted(self._layers - {""}),
            "optimizers": sorted(self._applied),
            "weights": list(self._weights.values()),
            "slots": [size for key, size in self._slots.items() if key not in self._weights],
        }
        self._record.update(model=model)


def noted(args: tuple[Any, ...], variables: Any) -> tuple[Any, ...]:
    """Keep the variables, whose names identify layers, and return the arguments.

    What can be read once only, as ``zip(gradients, variables)``, becomes a list.  A variable can
    be iterated too, and stays what it is.
    """
    kept = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
    with suppress(Exception):  # things of a kind that we do not know
        for each in kept:
            for item in each if isinstance(each, list | tuple) else ():
                variable = item[1] if isinstance(item, tuple) and len(item) == 2 else item
                if hasattr(variable, "assign"):
                    variables[id(variable)] = variable
    return kept


def _layer_of(variable: Any) -> str:
    """``c1`` of ``sequential/c1/kernel`` and of ``c1/kernel:0``."""
    return path_of(variable).rpartition("/")[0].rpartition("/")[2]
