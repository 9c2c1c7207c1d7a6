"""How much host memory a stream of images may hold: workers and buffers share one limit."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.units import KIB, MIB, exact_size, mib_figure, mib_figures, sized
from gpuconf.errors import UsageError

FLOAT_BYTES = 4
# Maximum bytes per pixel during decoding.  A progressive JPEG's coefficients take 6 bytes without
# chroma subsampling, the reduced image made from them less than 1, an image that is not reduced 3,
# and another 3 if it is rotated upright.  Pillow's pixels have 4 bytes.  A transparent image exists
# five times until it is pasted on white, and is then converted to an array.
REDUCED_BYTES_PER_PIXEL = 7
WHOLE_BYTES_PER_PIXEL = 12
PILLOW_BYTES_PER_PIXEL = 28
# A photograph of 9 million pixels.  Workers with less memory than this each would only wait for the
# lane of large images.
_TYPICAL_IMAGE_BYTES = 64 * MIB
# In addition to the waiting batches: one is being assembled, one converted, and one is in use.
_BATCHES_IN_WORK = 3
_MOST_WAITING = 4
# In addition to the path itself: its entries in a list, a tuple and a string tensor; the rounding
# of the allocators, three times; its epoch, its position and its index in the epoch's order, twice
# while the order is drawn.
_BYTES_PER_ENTRY = 2 * 8 + 24 + (8 + 8 + 16) + 5 * 8


class Demand(NamedTuple):
    """The parameters of a stream that its memory depends on."""

    images: int
    path_bytes: int  # all paths: as bytes, as text, and as characters of a tensor
    height: int
    width: int
    channels: int
    batch_size: int
    label_bytes: int = 0  # all labels, as an array and as a tensor

    @property
    def index_bytes(self) -> int:
        """Paths, labels and the epoch's order."""
        return self.path_bytes + self.label_bytes + self.images * _BYTES_PER_ENTRY

    @property
    def image_bytes(self) -> int:
        """One image at its final size, in float32."""
        return self.height * self.width * self.channels * FLOAT_BYTES

    @property
    def batch_bytes(self) -> int:
        """One batch, in float32."""
        return self.batch_size * self.image_bytes


class MemoryPlan(NamedTuple):
    """The most memory held at once, in bytes; ``print(plan)`` shows the sum.

    ``decoding_bytes`` is the limit for an image that is decoded alongside others. ``alone_bytes``
    is the limit for a larger image; only one such image is decoded at a time.
    """

    host_limit_bytes: int
    index_bytes: int
    batch_bytes: int
    image_bytes: int
    batches_waiting: int
    workers: int
    decoding_bytes: int
    alone_bytes: int

    @property
    def batches_bytes(self) -> int:
        """All batches: the waiting ones and those in progress."""
        return (self.batches_waiting + _BATCHES_IN_WORK) * self.batch_bytes

    @property
    def finished_bytes(self) -> int:
        """Images that are decoded and waiting for their batch: two for each worker."""
        return 2 * self.workers * self.image_bytes

    @property
    def held_bytes(self) -> int:
        """The sum: the maximum, if everything is as large as it may be."""
        decoding = self.workers * self.decoding_bytes + self.alone_bytes
        return self.index_bytes + self.batches_bytes + self.finished_bytes + decoding

    def __str__(self) -> str:
        batches = f"{self.batches_waiting} waiting + {_BATCHES_IN_WORK} in work"
        rows = [
            (self.index_bytes, "paths, labels and the epoch's order"),
            (self.batches_bytes, f"batches: ({batches}) × {mib_figure(self.batch_bytes)} MiB"),
            (self.finished_bytes, f"images for the next batch: 2 × {self.workers} workers"),
            (
                self.workers * self.decoding_bytes,
                f"decoding: {self.workers} workers × {mib_figure(self.decoding_bytes)} MiB, "
                f"JPEGs of {_megapixels(self.decoding_bytes)} each",
            ),
            (self.alone_bytes, f"one larger image, up to {_megapixels(self.alone_bytes)}"),
        ]
        limit = sized(self.host_limit_bytes)
        lines = [f"host memory: {limit} on top of the interpreter's own"]
        figures = mib_figures([size for size, _ in rows])
        shown = [(figure, what) for figure, (_, what) in zip(figures, rows, strict=True)]
        shown.append((mib_figure(self.held_bytes), "at most, together"))
        return "\n".join([*lines, *(f"  {figure:>7} MiB  {what}" for figure, what in shown)])


def plan_memory(demand: Demand, *, host_limit_bytes: int, cpus: int) -> MemoryPlan:
    """Divide ``host_limit_bytes``; a UsageError shows the sum if the limit is too low.

    The list and the batches come first, because they have a fixed size.  Half of the rest
    is reserved for one large image; the workers share the other half.
    """
    left = host_limit_bytes - demand.index_bytes
    waiting = _batches_waiting(demand, left)
    decoding = left - (waiting + _BATCHES_IN_WORK) * demand.batch_bytes
    least = 2 * least_decoding_bytes(demand) + 2 * demand.image_bytes
    if decoding < least:
        raise _too_little(demand, host_limit_bytes, least)
    each = max(_TYPICAL_IMAGE_BYTES, least_decoding_bytes(demand))
    workers = max(1, min(cpus, decoding // 2 // (each + 2 * demand.image_bytes)))
    decoding -= 2 * workers * demand.image_bytes
    return MemoryPlan(
        host_limit_bytes=host_limit_bytes,
        index_bytes=demand.index_bytes,
        batch_bytes=demand.batch_bytes,
        image_bytes=demand.image_bytes,
        batches_waiting=waiting,
        workers=workers,
        decoding_bytes=decoding // 2 // workers,
        alone_bytes=decoding // 2,
    )


def least_decoding_bytes(demand: Demand) -> int:
    """Bytes needed to decode an image of the final size; every plan must leave at least that."""
    return decoding_bytes(demand.height * demand.width, 64 * KIB, PILLOW_BYTES_PER_PIXEL)


def decoding_bytes(pixels: int, file_bytes: int, bytes_per_pixel: int) -> int:
    """Maximum bytes for decoding: the file, which may be held twice, and its pixels."""
    return 2 * file_bytes + pixels * bytes_per_pixel


def _batches_waiting(demand: Demand, left: int) -> int:
    """From 1 to 4, as many as fit in a tenth of the memory left: more do not speed up decoding."""
    return max(1, min(_MOST_WAITING, left // 10 // demand.batch_bytes))


def _too_little(demand: Demand, limit: int, least: int) -> UsageError:
    batches = (1 + _BATCHES_IN_WORK) * demand.batch_bytes
    needed = demand.index_bytes + batches + least
    shape = f"{demand.batch_size} × {demand.height} × {demand.width} × {demand.channels} × 4 B"
    lists = f"{sized(demand.index_bytes)} for {demand.images} paths"
    message = (
        f"host_limit {sized(limit)} is too small: {lists}"
        f" + {1 + _BATCHES_IN_WORK} batches of {shape} = {sized(batches)}"
        f" + {sized(least)} to decode = {sized(needed)}"
    )
    enough = exact_size(-(-needed // MIB) * MIB)
    return UsageError(message, hint=f'host_limit="{enough}", or a smaller batch_size or size')


def _megapixels(size_bytes: int) -> str:
    return f"{size_bytes / REDUCED_BYTES_PER_PIXEL / 1e6:.1f} megapixels"
