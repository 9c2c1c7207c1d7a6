"""Dilated and grouped convolutions on the GPU: TensorFlow has no CPU gradients for them."""

from __future__ import annotations

import json

import pytest

from gpuconf.simcard import Card, bridge_for_command
from gpuconf.simcard.bridge import VARIABLE
from tests.programs.card_clients import RunClient

# The reference is the same convolution by means the CPU has: the filter written out with its
# holes, and each group of channels on its own.
_PROGRAM = """
import itertools, json
import numpy as np
import tensorflow as tf

random = np.random.RandomState(0)

def spread(filter, dilation):
    for axis in (0, 1):
        filter = tf.experimental.numpy.moveaxis(filter, axis, 0)
        size = (filter.shape[0] - 1) * dilation + 1
        places = [[i * dilation] for i in range(filter.shape[0])]
        filter = tf.scatter_nd(places, filter, [size, *filter.shape[1:]])
        filter = tf.experimental.numpy.moveaxis(filter, 0, axis)
    return filter

def direct(x, filter, stride, padding, dilation, groups):
    return tf.nn.conv2d(x, filter, stride, padding, dilations=dilation)

def written_out(x, filter, stride, padding, dilation, groups):
    parts = zip(tf.split(x, groups, 3), tf.split(spread(filter, dilation), groups, 3))
    return tf.concat([tf.nn.conv2d(part, own, stride, padding) for part, own in parts], 3)

def gradients(convolve, device, x, filter, *how):
    with tf.device(device), tf.GradientTape() as tape:
        tape.watch([x, filter])
        y = convolve(x, filter, *how)
        slope = tf.reshape(tf.sin(tf.range(tf.size(y), dtype=tf.float32)), y.shape)
        loss = tf.reduce_sum(y * tf.cast(slope, y.dtype))
    return [y, *tape.gradient(loss, [x, filter])]

paddings = ["SAME", "VALID", [[0, 0], [2, 1], [1, 3], [0, 0]]]
worst, cases, devices = {}, 0, set()
for dtype, size, dilation, stride, padding, groups, shape in itertools.product(
    ["float32", "float16"], [1, 2, 3], [1, 2, 3], [1, 2], paddings, [1, 2], [(9, 8), (7, 11)]
):
    if (dilation > 1 and stride > 1) or dilation == groups == 1:
        continue
    x = tf.constant(random.randn(2, *shape, 4), dtype)
    filter = tf.constant(random.randn(size, size, 4 // groups, 6), dtype)
    how = (stride, padding, dilation, groups)
    on_card = gradients(direct, "GPU", x, filter, *how)
    on_host = gradients(written_out, "CPU", x, filter, *how)
    for one, other in zip(on_card, on_host):
        devices.add(one.device[-5:])
        far = float(tf.reduce_max(tf.abs(one - other)) / tf.reduce_max(tf.abs(other)))
        worst[dtype] = max(worst.get(dtype, 0.0), far)
    cases += 1
try:
    gradients(lambda x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME", dilations=[1, 2, 2, 2, 1]), "GPU",
              tf.ones([1, 5, 5, 5, 1]), tf.ones([3, 3, 3, 1, 1]))
    refused = "not refused"
except Exception as error:
    refused = str(error)
print(json.dumps({"worst": worst, "cases": cases, "devices": sorted(devices), "refused": refused}))
"""


@pytest.mark.slow
def test_they_equal_the_same_convolution_written_out(
    card: Card, run_tensorflow: RunClient, tensorflow_python: str
) -> None:
    """Every filter size, stride, padding, dilation and number of groups; in 3-D a loud refusal."""
    bridge = bridge_for_command([tensorflow_python])
    done = json.loads(run_tensorflow(card, _PROGRAM, **{VARIABLE: str(bridge)}).stdout)
    assert done["devices"] == ["GPU:0"]
    assert done["cases"] > 100
    assert done["worst"]["float32"] < 1e-5  # sums in another order
    assert done["worst"]["float16"] < 1e-2
    assert "a simulated GPU cannot compute Conv3D" in done["refused"]
