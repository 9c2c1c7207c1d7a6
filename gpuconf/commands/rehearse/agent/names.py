"""Names that identify the purpose of memory in a report, gathered while their owners are alive.

Nothing is kept alive: a program that replaces one model with the next gets its memory back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from gpuconf.commands.rehearse.agent.record import AgentRecord
from gpuconf.support.keras_api.jit import is_compiled
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.training import variables_updated
from gpuconf.support.keras_api.variables import bytes_of, name_of, optimizer_variables, path_of


class Names:
    """Names of layers and optimizers, and the bytes of each weight and optimizer variable.

    A custom training loop does not expose a model, so its layers are derived from variable names.
    """

    def __init__(self, record: AgentRecord) -> None:
        self._record = record
        self.models: WeakSet[Any] = WeakSet()  # that were trained or called
        self.optimizers: WeakSet[Any] = WeakSet()  # that were applied
        self.kept: list[Any] = []  # those that nothing else would keep alive
        self.variables: WeakValueDictionary[int, Any] = WeakValueDictionary()  # updated, by id
        self._is_compiled: bool | None = None  # by XLA, for any model that was trained or called
        self._layers: set[str] = set()
        self._applied: set[str] = set()
        self._weights: dict[int, int] = {}  # bytes by id
        self._slots: dict[int, int] = {}

    def gather(self) -> None:
        """Add the names of all objects that exist now."""
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
        """Gather names one last time, and record everything."""
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
    """Record the variables, whose names identify layers, and return the arguments.

    One-shot iterables such as ``zip(gradients, variables)`` become lists.  A variable, though also
    iterable, stays unchanged.
    """
    kept = tuple(list(each) if isinstance(each, Iterator) else each for each in args)
    with suppress(Exception):  # unknown kinds of objects
        variables.update((id(each), each) for each in variables_updated(kept))
    return kept


def _layer_of(variable: Any) -> str:
    """``c1`` in ``sequential/c1/kernel`` and in ``c1/kernel:0``."""
    return path_of(variable).rpartition("/")[0].rpartition("/")[2]
