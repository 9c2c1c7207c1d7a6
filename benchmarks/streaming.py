"""Images per second and peak memory of ways to feed images from disk, as tables.  `make batches`.

The images are JPEGs of mixed sizes, made here: photographs' detail and noise, 160 to 1280 pixels
wide, in four class folders.  Each contestant reads one epoch into float32 batches, in its own
process, including listing the folder.  Rounds are interleaved, so that noise on the machine affects
all alike, and the files are in the page cache.  No GPU is used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import machine

SIDE = 160
BATCH = 32
CLASSES = 4
OURS = "gpuconf.images"
KERAS = "keras image_dataset_from_directory"
# Contestants that hold all images: 20,000 need 8 GB.
HOLDS_ALL = "everything in a list (cv2)"
HOST_LIMIT = "512MiB"


def make_image(folder: Path, number: int, backgrounds: Any) -> None:
    """Make one JPEG, whose size and part of a background depend only on its number."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(number)
    width = int(rng.integers(160, 1281))
    height = min(1200, int(width * rng.choice([0.5625, 0.75, 1.0, 1.333])))
    left, top = int(rng.integers(0, 1601 - width)), int(rng.integers(0, 1201 - height))
    background = backgrounds[number % len(backgrounds)]
    place = folder / f"class{number % CLASSES}" / f"{number:06}.jpg"
    part = background[top : top + height, left : left + width]
    Image.fromarray(part).save(place, quality=85)


def make_backgrounds() -> list[Any]:
    """Six scenes of 1600 × 1200 pixels: smooth shapes and a sensor's noise."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    scenes = []
    for _ in range(6):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((1600, 1200), Image.Resampling.BICUBIC), np.float32)
        noisy = smooth + rng.normal(0, 6, smooth.shape)
        scenes.append(noisy.clip(0, 255).astype(np.uint8))
    return scenes


def make_folder(folder: Path, count: int) -> int:
    """Make ``count`` images in class folders; return their size in bytes."""
    for name in range(CLASSES):
        (folder / f"class{name}").mkdir(parents=True)
    backgrounds = make_backgrounds()
    for number in range(count):
        make_image(folder, number, backgrounds)
    return sum(file.stat().st_size for file in folder.glob("*/*.jpg"))


def gpuconf_images(folder: Path, **options: Any) -> Iterator[Any]:
    """Ours, with its defaults and a limit of 512 MiB."""
    from gpuconf.images import stream

    return iter(
        stream(folder, size=(SIDE, SIDE), batch_size=BATCH, host_limit=HOST_LIMIT, **options)
    )


def gpuconf_not_averaged(folder: Path) -> Iterator[Any]:
    """Ours with exactly Keras's values: large images are sampled, not averaged."""
    return gpuconf_images(folder, antialias=False)


def keras_folder(folder: Path) -> Iterator[Any]:
    """Keras's own loader with its defaults."""
    import keras

    return iter(
        keras.utils.image_dataset_from_directory(
            folder, image_size=(SIDE, SIDE), batch_size=BATCH, verbose=False
        )
    )


def in_class_folders(folder: Path) -> list[tuple[Path, int]]:
    """Files and their labels, shuffled."""
    import random

    found = [
        (path, label)
        for label, part in enumerate(sorted(folder.iterdir()))
        for path in sorted(part.iterdir())
    ]
    random.Random(0).shuffle(found)
    return found


def read_by_cv2(path: Path) -> Any:
    """As in most scripts: read, resize, RGB."""
    import cv2  # type: ignore[import-not-found,unused-ignore]

    image: Any = cv2.imread(str(path))
    return cv2.cvtColor(cv2.resize(image, (SIDE, SIDE)), cv2.COLOR_BGR2RGB)


def cv2_generator(folder: Path) -> Iterator[Any]:
    """A Python generator of batches by OpenCV, in one thread."""
    import cv2  # type: ignore[import-not-found,unused-ignore]
    import numpy as np

    cv2.setNumThreads(1)
    files = in_class_folders(folder)
    for first in range(0, len(files), BATCH):
        part = files[first : first + BATCH]
        images = np.stack([read_by_cv2(path) for path, _ in part]).astype(np.float32)
        yield images, np.array([label for _, label in part])


def everything(folder: Path) -> Iterator[Any]:
    """The beginner's way: all images in one list, then one array, then batches."""
    import numpy as np

    files = in_class_folders(folder)
    images = np.array([read_by_cv2(path) for path, _ in files], dtype=np.float32)
    labels = np.array([label for _, label in files])
    for first in range(0, len(images), BATCH):
        yield images[first : first + BATCH], labels[first : first + BATCH]


CONTESTANTS: dict[str, Callable[[Path], Iterator[Any]]] = {
    OURS: gpuconf_images,
    "gpuconf.images, antialias=False": gpuconf_not_averaged,
    KERAS: keras_folder,
    "cv2 generator, one thread": cv2_generator,
    HOLDS_ALL: everything,
}
_IN_TENSORFLOW = [
    name
    for name, feed in CONTESTANTS.items()
    if feed in (gpuconf_images, gpuconf_not_averaged, keras_folder)
]
PEERS = [name for name in CONTESTANTS if not name.startswith("gpuconf")]


def status_bytes(key: str) -> int:
    """A figure of /proc/self/status, such as VmHWM: the most memory that this process has used."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{key}:")[2].split()[0]) * 1024


def measure(name: str, folder: Path) -> dict[str, float]:
    """Read one epoch here: images, seconds, and memory before and at most."""
    if name in _IN_TENSORFLOW:
        import keras
        import tensorflow as tf

        # The memory of any TensorFlow use counts as the interpreter's own, including its
        # first operation.
        float(tf.reduce_sum(tf.zeros([8, 8])))
        assert keras.backend.backend() == "tensorflow"
    else:
        import cv2  # type: ignore[import-not-found,unused-ignore]
        import keras  # every training imports it
        import numpy as np  # noqa: F401
        import PIL.Image  # noqa: F401

        cv2.setNumThreads(1)
    own_bytes = status_bytes("VmRSS")
    count, started = 0, time.perf_counter()
    for images, _ in CONTESTANTS[name](folder):
        count += len(images)
    seconds = time.perf_counter() - started
    peak_bytes = status_bytes("VmHWM")
    return {"count": count, "seconds": seconds, "own": own_bytes, "peak": peak_bytes}


def measure_in_child(name: str, folder: Path) -> dict[str, float]:
    """The same in a fresh process."""
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    command = [sys.executable, __file__, "--one", name, "--folder", str(folder)]
    done = subprocess.run(command, check=False, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def print_table(count: int, results: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Print medians of one number of images; return the peaks."""
    speeds = {
        name: statistics.median(count / run["seconds"] for run in runs)
        for name, runs in results.items()
    }
    peaks = {name: max(run["peak"] for run in runs) for name, runs in results.items()}
    fastest = max((name for name in results if name in PEERS), key=lambda name: speeds[name])
    print(f"{count:34,}  images/s    spread  of fastest peer  peak RSS    own")
    for name, runs in results.items():
        assert all(run["count"] == count for run in runs), f"{name} has lost images"
        each = [count / run["seconds"] for run in runs]
        spread = f"{min(each):.0f}-{max(each):.0f}"
        ratio = f"{speeds[name] / speeds[fastest]:.2f}"
        own = statistics.median(run["own"] for run in runs) / 2**20
        peak = f"{peaks[name] / 2**20:.0f} MiB"
        print(f"{name:34}{speeds[name]:10.0f}{spread:>10}{ratio:>17}{peak:>10}{own:5.0f} MiB")
    return peaks


def compare(counts: list[int], rounds: int, images: Path) -> None:
    """Make, measure and print."""
    contestants = list(CONTESTANTS)
    print(machine("tensorflow", "keras", "pillow", "opencv-python-headless"))
    print(f"JPEGs to {SIDE} × {SIDE} × 3 float32, batches of {BATCH}, host_limit {HOST_LIMIT}")
    peaks: list[dict[str, float]] = []
    for count in counts:
        folder = images / str(count)
        size = make_folder(folder, count)
        print(f"\n{count:,} images, {size / 1e6:.0f} MB; rounds: {rounds}", flush=True)
        results: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
        for number in range(rounds):
            for name in contestants[:: -1 if number % 2 else 1]:
                results[name].append(measure_in_child(name, folder))
        peaks.append(print_table(count, results))
    print(f"\npeak RSS at {counts[-1]:,} images over that at {counts[0]:,}")
    for name in contestants:
        print(f"{name:34}{peaks[-1][name] / peaks[0][name]:10.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 20_000])
    parser.add_argument("--one", choices=CONTESTANTS, help="measure this one here, print JSON")
    parser.add_argument("--folder", type=Path, help="of the images, with --one")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.folder)))
        return
    with tempfile.TemporaryDirectory(prefix="gpuconf-streaming-") as images:
        compare(options.counts, options.rounds, Path(images))


if __name__ == "__main__":
    main()
