"""What is held of the host's RAM, measured, is what the plan says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import PLAIN
from tests.programs.processes import run_python

pytestmark = pytest.mark.slow

_MEMORY = """
import ctypes
import gc
import json
import os
import re
import sys
from pathlib import Path


def held_bytes(name="VmRSS"):
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{name}:\\s+(\\d+)", status)[1])

"""
_INDEX = """
from tests.images.image_files import plain
from gpuconf.images import stream

path = str(plain(Path.cwd() / "a.png", 3))
longer = path.replace("/a.png", 20 * "/." + "/a.png")


def kept(count):
    names = (longer + "" for _ in range(count))
    before = held_bytes()
    dataset = stream(names, range(count), size=(8, 8), batch_size=4, host_limit="256MiB")
    iterator = iter(dataset)
    next(iterator)
    return held_bytes() - before, dataset.memory_plan.index_bytes, dataset, iterator


first = kept(10)
few, many = kept(20_000), kept(100_000)
print(json.dumps([*few[:2], *many[:2]]), flush=True)
os._exit(0)  # no need to wait for the batches ahead
"""
_DECODING = """
import numpy as np
from PIL import Image
from gpuconf.images.memory_plan import PILLOW_BYTES_PER_PIXEL, decoding_bytes
from gpuconf.images.request import ImageRequest
from gpuconf.images.slow_decoding import SlowDecoder

SIDE = 2000
rows = np.linspace(0, 255, SIDE, dtype=np.uint8)
gray = np.add.outer(rows, rows)
colors = Image.fromarray(np.stack([gray, gray.T[::-1], gray], 2))
kinds = {
    "bmp": (colors, "BMP", {}),
    "webp": (colors, "WEBP", {"quality": 50, "method": 0}),
    "cmyk": (colors.convert("CMYK"), "JPEG", {}),
    "grey16": (Image.fromarray(gray.astype(np.uint16) << 8), "PNG", {"compress_level": 1}),
    "alpha": (colors.convert("RGBA"), "PNG", {"compress_level": 1}),
    "palette": (colors.quantize(16), "PNG", {"transparency": 0, "compress_level": 1}),
}
exif = Image.Exif()
exif[0x0112] = 6
for name, (image, kind, options) in kinds.items():
    image.save(name, kind, **options, **({"exif": exif} if kind in ("PNG", "WEBP") else {}))
image.resize((80, 80)).save("small", "BMP")
image, colors, kinds = None, None, list(kinds)
found = {}
for name in kinds:
    request = ImageRequest([name], size=(64, 64), host_limit="8GiB")
    decoder = request.make(lambda part: SlowDecoder(request.picture, part.plan))
    decoder.decode(b"small")  # which loads and traces what is needed
    plan = decoding_bytes(SIDE * SIDE, os.path.getsize(name), PILLOW_BYTES_PER_PIXEL)
    before = held_bytes()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    decoder.decode(os.fsencode(name))
    found[name] = held_bytes("VmHWM") - before, plan
print(json.dumps(found))
"""


def test_the_list_takes_what_the_plan_says(tmp_path: Path) -> None:
    """Paths as bytes, text and tensor, labels and the order: within a fifth, from 20,000 on."""
    output = run_python(_MEMORY + _INDEX, tmp_path, environ=PLAIN, timeout_s=300)
    few, few_planned, many, many_planned = json.loads(output)
    # The difference, because TensorFlow's threads and graph take some MiB of their own.
    assert many - few == pytest.approx(many_planned - few_planned, rel=0.2)


def test_what_pillow_reads_takes_no_more_than_the_plan_says(tmp_path: Path) -> None:
    """Four megapixels of each kind that Pillow reads whole; and the largest need is not far off."""
    found = json.loads(run_python(_MEMORY + _DECODING, tmp_path, environ=PLAIN, timeout_s=300))
    assert len(found) == 6
    assert {kind: peak for kind, (peak, plan) in found.items() if peak > plan} == {}
    assert max(peak / plan for peak, plan in found.values()) > 0.5
