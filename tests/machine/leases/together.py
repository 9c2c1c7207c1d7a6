"""One of several programs that start together: at each line it continues, to bind, to take, to end.

It prints a line of JSON when TensorFlow is imported, one when it has its limit, and one when it has
taken nine tenths of it.  With the word ``lists`` it lists the GPUs first; with ``hides`` or
``splits`` it then sets something of its own, with ``little`` it takes 2 GiB.
"""

import json
import os
import sys
from typing import Any

import gpuconf.auto  # noqa: F401  # the first line of a script
from gpuconf import ShortageError, activation

import tensorflow as tf  # isort: skip


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def limit() -> dict[str, Any]:
    """What the devices have, as TensorFlow made them."""
    try:
        tf.config.list_logical_devices("GPU")
        if "session" in sys.argv:
            with tf.Graph().as_default(), tf.compat.v1.Session(config=tf.compat.v1.ConfigProto()):
                pass
    except ShortageError as error:
        return {"shortage": error.shortage, "message": str(error)}
    made = activation()
    assert made is not None
    assert made.plan is not None
    devices = [s.effective for s in made.settings if s.name.startswith("limit of")]
    return {"limits": devices, "gpus": [gpu.gpu.uuid for gpu in made.plan.gpus]}


def take(mib: int) -> str:
    """Allocate so much on the GPU; the error's first words where that is refused."""
    try:
        tensor = tf.raw_ops.Empty(shape=(mib, 1024, 256), dtype=tf.float32)
    except tf.errors.ResourceExhaustedError as error:
        return f"refused: {str(error)[:60]}"
    return str(tensor.device[-5:])


def main() -> None:
    say(pid=os.getpid())
    sys.stdin.readline()
    if "lists" in sys.argv:
        gpus = tf.config.list_physical_devices("GPU")
        if "hides" in sys.argv:
            tf.config.set_visible_devices([], "GPU")
        if "splits" in sys.argv:
            half = tf.config.LogicalDeviceConfiguration(memory_limit=1000)
            tf.config.set_logical_device_configuration(gpus[0], [half, half])
        say(count=len(gpus))
        sys.stdin.readline()
    got = limit()
    say(**got)
    sys.stdin.readline()
    if got.get("limits"):
        # BFC takes regions of whole powers of two where memory grows: a step below the limit.
        much = 2048 if "little" in sys.argv else int(got["limits"][0].split()[0]) * 9 // 10
        say(taken=take(much))
    sys.stdin.readline()


main()
