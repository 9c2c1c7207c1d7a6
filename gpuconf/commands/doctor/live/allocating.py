"""The child's steps in PyTorch and JAX: contexts, memory and its limit, a matmul."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.doctor.live.recorder import CardGauge, LimitNotHeldError, Recorder
from gpuconf.commands.doctor.live.results import compare, whole_numbers
from gpuconf.planner import GpuPlan

# JAX's limits are multiples of 2 MiB, PyTorch's are exact bytes.
_GRANULE_BYTES = 2 * MIB
_ARRAY = (1024, 1024, 4)  # 16 MiB of float32
_SIMULATED = "GPUCONF_SIMCARD_FILE"


class Cards(Protocol):
    """A framework's implementation of the steps; it counts its GPUs from 0."""

    title: str
    package: str
    version: str
    is_cuda_build: bool

    def count(self) -> int:
        """The number of GPUs that the framework lists; creates no context."""

    def show_only(self, place: int) -> None:
        """Restrict the framework to this GPU, before its first context."""

    def make_context(self, place: int) -> None:
        """Create a CUDA context, and set the limit."""

    def limit_bytes(self, place: int) -> int | None:
        """The limit that the framework reports; None if it reports none."""

    def refuses(self, size_bytes: int, place: int) -> bool | None:
        """Whether an allocation of this size fails; None if that cannot be tried."""

    def there_and_back(self, array: Any, place: int) -> Any:
        """Copy ``array`` to the GPU and back."""

    def matmul(self, left: Any, right: Any, place: int) -> Any:
        """The product of both matrices, computed on the GPU."""

    def in_use(self, place: int) -> tuple[int, int]:
        """Bytes allocated now, and at peak."""


class AllocatingBench:
    """An imported framework and the GPUs of the plan."""

    def __init__(
        self, framework: Cards, recorder: Recorder, gauge: CardGauge, planned: Sequence[GpuPlan]
    ) -> None:
        self._cards = framework
        self._recorder = recorder
        self._gauge = gauge
        self._planned = planned
        self.places: tuple[int, ...] = ()

    def list_cards(self, only: int | None) -> None:
        """Have the framework count its GPUs."""
        cards = self._cards
        self._recorder.write("facts", version=cards.version, is_cuda_build=cards.is_cuda_build)
        if only is not None:
            cards.show_only(only)
        listed = cards.count()
        self._recorder.write("facts", listed=listed)
        if not listed:
            raise LookupError(f"{cards.title} lists no GPU")
        if os.environ.get(_SIMULATED):
            why = f"a simulated GPU has no kernels of {cards.title}"
            self._recorder.write("facts", untried="matmul", why_untried=why)
        self.places = tuple(range(listed)) if only is None else (only,)

    def make_contexts(self) -> None:
        """Have the framework start on its GPUs, and query its limits."""
        with self._recorder.step("context", self.places, self._gauge.read):
            for place in self.places:
                self._cards.make_context(place)
            self._gauge.allocator = self._cards.in_use
        notes = [note for note in map(self._difference, self.places) if note is not None]
        self._recorder.write("notes", notes=notes)

    def try_card(self, place: int) -> None:
        """Run the steps on one GPU until one fails.  Raises StepFailed."""
        with self._recorder.step("memory", (place,), self._gauge.read):
            self._take_memory(place)
        if os.environ.get(_SIMULATED):
            return
        with self._recorder.step("matmul", (place,), self._gauge.read):
            left, right = whole_numbers((512, 512), seed=1), whole_numbers((512, 512), seed=2)
            compare(self._cards.matmul(left, right, place), left @ right)

    def _take_memory(self, place: int) -> None:
        array = whole_numbers(_ARRAY, seed=3)
        compare(self._cards.there_and_back(array, place), array)
        limit = self._planned_bytes(place)
        if limit is None or self._difference(place) is not None:
            return  # the notes report it; and more than our limit would be allocated
        if self._cards.refuses(limit + _GRANULE_BYTES, place) is False:
            raise LimitNotHeldError(
                f"a single allocation of {sized(limit + _GRANULE_BYTES)} succeeded"
            )

    def _difference(self, place: int) -> str | None:
        """Describe how the limit in effect differs from the plan's; None if it does not."""
        planned, found = self._planned_bytes(place), self._cards.limit_bytes(place)
        if planned is None or found is None or -_GRANULE_BYTES <= found - planned <= 0:
            return None
        return f"GPU {place}: planned limit {sized(planned)}, actual limit {sized(found)}"

    def _planned_bytes(self, place: int) -> int | None:
        plans = self._planned[place : place + 1]
        limits = [plan.limit_of(self._cards.package) for plan in plans]
        return next((limit.limit_bytes for limit in limits if limit is not None), None)
