"""With a GPU visible every part of a stream stays on the host: the GPU's allocator is not used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.simcard import simulated_card
from tests.programs import warm
from tests.programs.card_clients import STORY
from tests.programs.processes import clean_environment, run

pytestmark = pytest.mark.slow

_PROGRAM = """
import gpuconf
gpuconf.configure(memory={"hold": False})
from pathlib import Path
import keras
import tensorflow as tf
from tests.images.image_files import every_kind, plains
from gpuconf.images import stream

assert len(tf.config.list_logical_devices("GPU")) == 1
paths = [*plains(Path("plain"), 9), *every_kind(Path("kinds")).values(), "missing.png"]
dataset = stream(
    paths,
    list(range(len(paths))),
    size=(32, 32),
    batch_size=4,
    on_error="skip",
    scale="-1-1",
    augment=lambda images: tf.image.random_flip_left_right(images),
)
for _ in range(2):
    for images, labels in dataset:
        assert "CPU" in images.device and "CPU" in labels.device
assert len(dataset.skipped) == 1
print(tf.config.experimental.get_memory_info("GPU:0"))
tf.zeros([4]) + 1
assert tf.config.experimental.get_memory_info("GPU:0")["peak"] > 0, "the figure can change"
"""


def test_nothing_is_put_on_the_card(bridge: Path, tmp_path: Path) -> None:
    """Decoding, labels, augmentation, skipping: not one byte of the GPU's memory."""
    (tmp_path / "program.py").write_text(_PROGRAM, encoding="utf-8")
    with simulated_card(STORY) as card:
        environ = card.environment(clean_environment(tmp_path), bridge=bridge)
        environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", warm.VARIABLE: "1"}
        done = run([sys.executable, "program.py"], tmp_path, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'current': 0, 'peak': 0}"
