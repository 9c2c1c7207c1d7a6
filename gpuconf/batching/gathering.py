"""Gather the outputs of all batches in host RAM or in a file."""

from __future__ import annotations

from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests


class GatheredOutputs:
    """The outputs of all samples, in order.

    If ``samples`` is known, they are written into arrays of that length, allocated at the first
    batch, or into ``out``. Otherwise they are kept and joined at the end.
    """

    def __init__(self, *, samples: int | None, out: Any = None) -> None:
        self._samples = samples
        self._arrays: list[Any] | None = None
        self._given = out is not None
        self._kept: list[list[Any]] = []
        self._nest: Any = out
        self._filled = 0

    def add(self, outputs: Any, samples: int) -> Any:
        """Write the outputs of the next ``samples`` samples; return them as arrays."""
        flat = [nests.on_host(leaf) for leaf in nests.leaves(outputs)]
        if not self._filled:
            self._begin(outputs, flat, samples)
        if self._arrays is None:
            self._kept.append(flat)
            self._filled += 1
            return nests.refilled(outputs, flat)
        end = self._filled + len(flat[0])
        self._check_room(end)
        for array, values in zip(self._arrays, flat, strict=True):
            array[self._filled : end] = values
        views = [array[self._filled : end] for array in self._arrays]
        self._filled = end
        return nests.refilled(outputs, views)

    def result(self) -> Any:
        """All outputs, nested like the model's, or None if there was no batch."""
        import numpy as np

        if self._arrays is None:
            if not self._kept:
                return None
            joined = [np.concatenate(each) for each in zip(*self._kept, strict=True)]
            return nests.refilled(self._nest, joined)
        for array in self._arrays:
            if hasattr(array, "flush"):
                array.flush()  # complete a memmap's file
        if self._given:
            self._say_what_is_unwritten()
            return self._nest
        if self._filled == self._samples:
            return nests.refilled(self._nest, self._arrays)
        return nests.refilled(self._nest, [array[: self._filled] for array in self._arrays])

    def _begin(self, outputs: Any, flat: list[Any], samples: int) -> None:
        import numpy as np

        if self._given:
            self._arrays = _aligned(self._nest, outputs)
            self._check_out(flat)
            return
        self._nest = outputs
        are_per_sample = all(leaf.ndim and len(leaf) == samples for leaf in flat)
        if self._samples is not None and are_per_sample:
            shapes = [(self._samples, *leaf.shape[1:]) for leaf in flat]
            self._arrays = [
                np.empty(shape, leaf.dtype) for shape, leaf in zip(shapes, flat, strict=True)
            ]

    def _check_out(self, flat: list[Any]) -> None:
        """Raise UsageError if ``out`` does not match the outputs."""
        import numpy as np

        assert self._arrays is not None
        wanted = [(self._samples, *leaf.shape[1:]) for leaf in flat]
        given = [tuple(getattr(array, "shape", ())) for array in self._arrays]
        fits = all(
            one[1:] == other[1:] and one[:1] in ((None,), other[:1])
            for one, other in zip(wanted, given, strict=True)
        )
        shape, dtype = wanted[0], flat[0].dtype
        hint = f'out=np.lib.format.open_memmap("outputs.npy", "w+", "{dtype}", {shape})'
        if not fits:
            raise UsageError(
                f"out has shape {_shapes(given)}, but the outputs have {_shapes(wanted)}", hint=hint
            )
        for array, values in zip(self._arrays, flat, strict=True):
            if isinstance(array, np.ndarray) and not array.flags.writeable:
                raise UsageError("out is read-only", hint='np.load("outputs.npy", mmap_mode="r+")')
            if not np.can_cast(values.dtype, array.dtype, "same_kind"):
                raise UsageError(
                    f"out has dtype {array.dtype}, which cannot hold "
                    f"outputs of dtype {values.dtype}",
                    hint=hint,
                )

    def _say_what_is_unwritten(self) -> None:
        """Report rows that were not written; the number of samples was not known in advance."""
        assert self._arrays is not None
        rows = len(self._arrays[0])
        if self._filled < rows:
            say(f"predict: out has {rows} rows, of which the first {self._filled} were written")

    def _check_room(self, end: int) -> None:
        assert self._arrays is not None
        if end > len(self._arrays[0]):
            raise UsageError(
                f"there are outputs for at least {end} samples, but room for only "
                f"{len(self._arrays[0])}",
                hint="steps=..., or an out= with a row for each sample",
            )


def _aligned(out: Any, outputs: Any) -> list[Any]:
    """The arrays of ``out`` in the order of the outputs; dict keys may be in another order."""
    if isinstance(outputs, dict) and isinstance(out, dict) and set(outputs) == set(out):
        return [array for key in outputs for array in _aligned(out[key], outputs[key])]
    are_rows = isinstance(outputs, (list, tuple)) and isinstance(out, (list, tuple))
    if are_rows and len(outputs) == len(out):
        pairs = zip(out, outputs, strict=True)
        return [array for one, other in pairs for array in _aligned(one, other)]
    if isinstance(outputs, (dict, list, tuple)) or isinstance(out, (dict, list, tuple)):
        kinds = f"{type(out).__name__}, but the outputs are a {type(outputs).__name__}"
        raise UsageError(
            f"out is a {kinds}, so they are not nested in the same way",
            hint="out= with an array for each output",
        )
    return [out]


def _shapes(shapes: list[tuple[Any, ...]]) -> str:
    return ", ".join(str(shape).replace("None", "samples") for shape in shapes)
