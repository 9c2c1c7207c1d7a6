"""Data read from files during training instead of held in memory as a whole.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.wording import by_gpuconf, gpuconf_serves
from gpuconf.support.failures.reading import LogFacts

# Code that scales images to 0 to 1.
SCALES = re.compile(r"/=?\s{0,9}255")
_SIZE = (224, 224)
_RGB = 3
_WITH_TORCH = Proposal(
    "read the data batch by batch from its files",
    "then host memory holds only the current batches",
    "code",
    'loader = DataLoader(ImageFolder("images", transform), batch_size=32)',
)
_ARRAY_FILE = Proposal(
    "leave the array in its file, and let gpuconf read it batch by batch",
    "Keras reads a memmap as a whole, gpuconf the rows of one batch; it takes HDF5 too",
    "code",
    'import numpy as np\nx = np.load("x.npy", mmap_mode="r")\n' + by_gpuconf("fit"),
)


def from_files(facts: LogFacts, *, call: str = "fit") -> Iterator[Proposal]:
    """gpuconf first if it applies, then the framework's own loader."""
    if facts.framework == "torch":
        yield _WITH_TORCH
        return
    if is_no_picture(facts) and gpuconf_serves(facts):
        yield _ARRAY_FILE
        return
    size = _picture_size(facts)
    if gpuconf_serves(facts):
        yield _stream(facts, size, call)
    yield Proposal(
        "read images with Keras's own loader",
        "then neither the card nor the computer holds all of them",
        "code",
        'data = keras.utils.image_dataset_from_directory("images", '
        f"image_size={size}, batch_size=32)",
    )


def _stream(facts: LogFacts, size: tuple[int, int], call: str) -> Proposal:
    # The outputs of predict must be in the order of the files.
    order = ", shuffle=False" if call == "predict" else ""
    code = facts.user_code.code if facts.user_code is not None else None
    scale = ', scale="0-1"' if SCALES.search(code or "") else ""
    return Proposal(
        "stream images from their paths instead of one large array",
        "gpuconf holds paths and decodes a few batches ahead, of a folder or a list, within "
        "host_limit; neither the card nor the computer holds all images; values are 0 to 255 "
        'without scale="0-1"',
        "code",
        "import gpuconf.images\n"
        f'data = gpuconf.images.stream("images", size={size}, batch_size=32{order}{scale}, '
        f'host_limit="2GiB")\nmodel.{call}(data)',
    )


def _picture_size(facts: LogFacts) -> tuple[int, int]:
    """Height and width of the images in the failed array, or the default."""
    tensor = facts.request.tensor
    shape = tensor.shape if tensor is not None else ()
    is_pictures = len(shape) in (3, 4) and shape[-1] == _RGB
    return (shape[-3], shape[-2]) if is_pictures else _SIZE


def is_no_picture(facts: LogFacts) -> bool:
    """Whether the failed array is known to be a list or a table of numbers."""
    tensor = facts.request.tensor
    return tensor is not None and len(tensor.shape) <= 2
