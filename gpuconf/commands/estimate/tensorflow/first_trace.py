"""Keep the first trace of a step, so that other batch sizes need no full trace.

The second batch size is traced without the optimizer's updates, which do not depend on the batch.
The two traces determine the sizes at any other batch size.  They cannot show user code that
behaves differently from some batch size on, outside of the two traced sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuconf.commands.estimate.keras_models.layer_calls import KnownVariables, LayerCalls
from gpuconf.commands.estimate.tensorflow.paired_graphs import BatchSizes, DoubtError, PairedGraphs
from gpuconf.commands.estimate.tensorflow.resized_graph import ResizedGraph


class FirstTrace:
    """A traced graph with the notes taken during the trace.

    ``updates`` are the numbers of the operations that ``optimizer`` added.
    """

    def __init__(
        self,
        graph: Any,
        calls: LayerCalls,
        known: KnownVariables,
        batch_size: int,
        *,
        optimizer: Any = None,
        updates: Iterable[range] = (),
    ) -> None:
        self.graph = graph
        self.calls = calls
        self.known = known
        self.optimizer = optimizer
        self.updates = tuple(updates)
        self.batch_size = batch_size
        self._second_batch_size = 0
        self._pair: PairedGraphs | None = None

    @property
    def wants_part(self) -> bool:
        """Whether a second trace may omit the updates."""
        return self._pair is None and bool(self.updates)

    def pair_with(self, graph: Any, batch_size: int, *, is_whole: bool = True) -> None:
        """Add a second trace if there is none; ``is_whole`` is False for one without updates."""
        if self._pair is not None:
            return
        self._second_batch_size = batch_size
        try:
            self._pair = PairedGraphs(self.graph, graph, () if is_whole else self.updates)
        except DoubtError:
            self.updates = ()

    def graph_at(self, batch_size: int) -> ResizedGraph | None:
        """The graph at another batch size; None if it needs its own trace."""
        if self._pair is None:
            return None
        sizes = BatchSizes(self.batch_size, self._second_batch_size, batch_size)
        try:
            return ResizedGraph(self._pair, sizes)
        except DoubtError:
            return None
