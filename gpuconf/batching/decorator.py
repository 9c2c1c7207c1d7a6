"""``oom_safe``: any function of batches, called with batches that fit the GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from gpuconf.batching.card import ComputeDevice, card_in_use, room_to_double
from gpuconf.batching.data.host_data import checked_batch_size
from gpuconf.batching.data.rows import is_rows
from gpuconf.batching.first_size import CAREFUL, host_batch, sample_signature
from gpuconf.batching.gathering import GatheredOutputs
from gpuconf.batching.parts import in_parts, progress_bar
from gpuconf.batching.size import MOST_RETRIES, CardBatch, checked_retries, key_for
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests

Function = TypeVar("Function", bound=Callable[..., Any])
Combine = Callable[[list[Any], list[int]], Any]


@overload
def oom_safe(
    function: Function,
    *,
    batch_size: int | str = ...,
    combine: Combine | None = ...,
    max_retries: int = ...,
    progress: bool | None = ...,
) -> Function: ...


@overload
def oom_safe(
    function: None = None,
    *,
    batch_size: int | str = ...,
    combine: Combine | None = ...,
    max_retries: int = ...,
    progress: bool | None = ...,
) -> Callable[[Function], Function]: ...


def oom_safe(
    function: Any = None,
    *,
    batch_size: int | str = "auto",
    combine: Combine | None = None,
    max_retries: int = MOST_RETRIES,
    progress: bool | None = None,
) -> Any:
    """Turn a function of one batch into a function of any number of samples that survives OOM.

    ::

        @oom_safe(batch_size=256)
        def embed(images, *, flip=False):
            return model(images, training=False)

        vectors = embed(all_images)        # of any length; an array on the host

    Positional arguments that are arrays, or nests of arrays, are all cut along their first axis.
    All other arguments are passed on unchanged.  Results are joined along the first axis, on the
    host. ``combine(results, sizes)`` replaces the joining, for example if each result is the mean
    of a batch. A batch that does not fit is halved and the function is called again, so the
    function must tolerate seeing the same samples twice. Out-of-memory errors from TensorFlow, JAX
    and PyTorch are recognized. ``batch_size="auto"`` starts small and doubles as long as batches
    fit. The size is remembered for this function, these shapes and this GPU (`forget`).

    Raises UsageError for arrays of different lengths or results that cannot be joined.  If one
    sample does not fit, or after ``max_retries``, the function's own error is raised.
    """
    most, retries = checked_batch_size(batch_size), checked_retries(max_retries)

    def decorate(function: Function) -> Function:
        token = object()  # functions with the same name are different

        @functools.wraps(function)
        def safe(*args: Any, **kwargs: Any) -> Any:
            call = _Call(function, args, kwargs)
            card_batch = _size_for((token, call.owner), call, most, retries)
            return call.in_batches(card_batch, combine, progress)

        return safe  # type: ignore[return-value]

    return decorate if function is None else decorate(function)


class _Call:
    """One call of a decorated function: its arguments, some of which are cut."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._function, self._args, self._kwargs = function, list(args), kwargs
        self._cut = [number for number, value in enumerate(args) if _is_data(value)]
        for number in self._cut:
            self._args[number] = _as_arrays(args[number])
        self.data = [self._args[number] for number in self._cut]
        # The batch size of a method depends on its object.
        self.owner = id(args[0]) if args and 0 not in self._cut else None
        self.name = getattr(function, "__qualname__", repr(function))
        counts = {int(leaf.shape[0]) for leaf in nests.leaves(self.data)}
        if len(counts) != 1 or counts == {0}:
            raise UsageError(
                f"{self.name}: the arrays have {sorted(counts) or 'no'} samples, but must all "
                "have the same number; positional arrays are split into batches",
                hint="pass arrays that must not be split as keyword arguments",
            )
        (self.samples,) = counts

    @property
    def data_bytes(self) -> int:
        """Bytes of all samples, as far as known."""
        return sum(int(getattr(leaf, "nbytes", 0)) for leaf in nests.leaves(self.data))

    def in_batches(self, card_batch: CardBatch, combine: Any, progress: bool | None) -> Any:
        """Call the function batch by batch and return the result for all samples."""
        results: list[Any] = []
        sizes: list[int] = []
        gathered = GatheredOutputs(samples=self.samples)
        run = functools.partial(self._part, combine is None)
        with progress_bar(self.name, self.samples, progress) as advance:
            for result, size in in_parts(self.samples, card_batch, run):
                sizes.append(size)
                if combine is not None:
                    results.append(result)
                elif result is not None:
                    self._check_joinable(result, size)
                    gathered.add(result, size)
                advance(size)
        return combine(results, sizes) if combine is not None else gathered.result()

    def _part(self, to_host: bool, start: int, end: int) -> Any:
        args = list(self._args)
        for number in self._cut:
            args[number] = nests.part(args[number], start, end)
        result = self._function(*args, **self._kwargs)
        return nests.mapped(nests.on_host, result) if to_host else nests.computed(result)

    def _check_joinable(self, result: Any, size: int) -> None:
        shapes = [getattr(leaf, "shape", ()) for leaf in nests.leaves(result)]
        if not all(shape and shape[0] == size for shape in shapes):
            raise UsageError(
                f"{self.name} returned {shapes} for {size} samples: results without one row per "
                "sample cannot be joined",
                hint="@oom_safe(combine=lambda results, sizes: np.average(results, weights=sizes))",
            )


def _size_for(key: Any, call: _Call, most: int | None, max_retries: int) -> CardBatch:
    """Return the call's batch size; ``most`` is None for an automatic size."""
    card = card_in_use() or ComputeDevice("any")
    sample_bytes = call.data_bytes // call.samples
    return CardBatch(
        key_for("call", (*key, sample_signature(call.data)), card),
        what=call.name,
        most=host_batch(sample_bytes) if most is None else most,
        start=CAREFUL if most is None else None,
        room_to_double=room_to_double(card) if most is None else None,
        max_retries=max_retries,
    )


def _is_data(value: Any) -> bool:
    if isinstance(value, (int, float, str, bytes)) or not is_rows(value):
        return False
    return nests.is_written_out(value) or all(
        len(getattr(leaf, "shape", ())) > 0 for leaf in nests.leaves(value)
    )


def _as_arrays(value: Any) -> Any:
    import numpy as np

    return np.asarray(value) if nests.is_written_out(value) else value
