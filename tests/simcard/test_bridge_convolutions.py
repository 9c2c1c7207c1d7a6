"""Convolutions that TensorFlow's CPU kernels refuse and a GPU computes: on the GPU too."""

from __future__ import annotations

import json

import pytest

from gpuconf.simcard import Card, bridge_for_command
from gpuconf.simcard.bridge import VARIABLE
from tests.programs.card_clients import RunClient

# The reference is a convolution written out on the CPU: one product for each place of the filter,
# with channels last.
_PROGRAM = """
import itertools, json
import numpy as np
import tensorflow as tf

random = np.random.RandomState(0)
FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
SHAPES = [(9, 8, 5), (7, 11, 6)]

def normal(*shape, dtype="float32"):
    return tf.constant(random.randn(*shape), dtype)

def channels_first(x):
    return tf.transpose(x, [0, x.shape.rank - 1, *range(1, x.shape.rank - 1)])

def channels_last(x):
    return tf.transpose(x, [0, *range(2, x.shape.rank), 1])

def written_out(x, filter, strides, padding, dilations, groups):
    rank, (depth, filters), total = len(strides), filter.shape[-2:], 0
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(filter.shape, dilations)]
    if padding == "SAME":
        outs = [-(-size // stride) for size, stride in zip(x.shape[1:-1], strides)]
        room = [max((out - 1) * stride + far - size, 0)
                for out, stride, far, size in zip(outs, strides, reach, x.shape[1:-1])]
        padding = [(0, 0), *((each // 2, each - each // 2) for each in room), (0, 0)]
    x = tf.pad(x, padding if padding != "VALID" else [(0, 0)] * (rank + 2))
    outs = [(size - far) // stride + 1
            for size, far, stride in zip(x.shape[1:-1], reach, strides)]
    for place in itertools.product(*map(range, filter.shape[:rank])):
        seen = [slice(at * dilation, at * dilation + (out - 1) * stride + 1, stride)
                for at, dilation, out, stride in zip(place, dilations, outs, strides)]
        part = x[(slice(None), *seen)]
        part = tf.reshape(part, [*part.shape[:-1], groups, depth, 1])
        weights = tf.reshape(filter[place], [depth, groups, filters // groups])
        product = tf.reduce_sum(part * tf.transpose(weights, [1, 0, 2]), -2)
        total += tf.reshape(product, [*product.shape[:-2], filters])
    return total

def results(function, inputs):
    '''What it gives, and the gradients with another weight for each of its numbers.'''
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
        weights = tf.reshape(tf.sin(tf.range(tf.size(y), dtype="float32")), y.shape)
        loss = tf.reduce_sum(y * tf.cast(weights, y.dtype))
    return [y, *tape.gradient(loss, inputs)]

def differences(direct, reference, inputs, in_graph=False):
    with tf.device("CPU"):
        exact = results(reference, [tf.cast(each, "float32") for each in inputs])
    with tf.device("GPU"):
        run = tf.function(results, autograph=False) if in_graph else results
        found = run(direct, inputs)
    for one, other in zip(found, exact, strict=True):
        assert one.device.endswith("GPU:0") and one.shape == other.shape
        yield float(tf.reduce_max(tf.abs(tf.cast(one, "float32") - other))
                    / tf.reduce_max(tf.abs(other)))
"""

_GRADIENTS_IN_TWO_DIMENSIONS = """
paddings = ["SAME", "VALID", [[0, 0], [2, 1], [1, 3], [0, 0]]]
worst, cases = {}, 0
for dtype, size, dilation, stride, padding, groups, shape in itertools.product(
    ["float32", "float16"], [1, 2, 3], [1, 2, 3], [1, 2], paddings, [1, 2], SHAPES
):
    if (dilation > 1 and stride > 1) or dilation == groups == 1:
        continue
    inputs = [normal(2, *shape[:2], 4, dtype=dtype),
              normal(size, size, 4 // groups, 6, dtype=dtype)]
    far = differences(
        lambda x, filter: tf.nn.conv2d(x, filter, stride, padding, dilations=dilation),
        lambda x, filter: written_out(x, filter, [stride] * 2, padding, [dilation] * 2, groups),
        inputs,
    )
    worst[dtype] = max(worst.get(dtype, 0.0), *far)
    cases += 1
print(json.dumps({"worst": worst, "cases": cases}))
"""

_EVERY_RANK = """
worst, cases = {}, 0
def note(name, *arguments):
    worst[name] = max(worst.get(name, 0.0), *differences(*arguments))
    global cases
    cases += 1

for rank, is_first, groups, dilation, stride, padding in itertools.product(
    [1, 2, 3], [False, True], [1, 2], [1, 2], [1, 2], ["SAME", "VALID"]
):
    if dilation > 1 and stride > 1:
        continue
    form, dtype = FORMATS[rank][is_first], "float16" if padding == "SAME" else "float32"
    put, back = (channels_first, channels_last) if is_first else (tf.identity, tf.identity)
    def direct(x, filter):
        return back(tf.nn.convolution(
            put(x), filter, stride, padding, data_format=form, dilations=dilation))
    def reference(x, filter):
        return written_out(x, filter, [stride] * rank, padding, [dilation] * rank, groups)
    inputs = [normal(2, *SHAPES[0][:rank], 4, dtype=dtype),
              normal(*(3, 2, 3)[:rank], 4 // groups, 6, dtype=dtype)]
    note(dtype, direct, reference, inputs, stride == 1)

# tf.nn.convolution makes batches of what is dilated, tf.nn.conv3d leaves it to the kernel.
for is_first, groups, dilations, stride in itertools.product(
    [False, True], [1, 2], [(2, 2, 2), (1, 2, 1), (3, 1, 2)], [1, 2]
):
    put, back = (channels_first, channels_last) if is_first else (tf.identity, tf.identity)
    def in_format(numbers):
        return [1, 1, *numbers] if is_first else [1, *numbers, 1]
    def direct(x, filter):
        return back(tf.nn.conv3d(put(x), filter, in_format([stride] * 3), "SAME",
                                 FORMATS[3][is_first], in_format(dilations)))
    def reference(x, filter):
        return written_out(x, filter, [stride] * 3, "SAME", dilations, groups)
    inputs = [normal(2, *SHAPES[1], 4), normal(3, 2, 3, 4 // groups, 6)]
    note("float32", direct, reference, inputs)

# With their channels last the CPU has these itself.
images, volumes = normal(2, 9, 8, 4), normal(2, 7, 11, 6, 4)
for of_format, inputs in [
    (lambda form, n, c: lambda x: tf.nn.max_pool2d(x, [3, 2], 2, "SAME", form), [images]),
    (lambda form, n, c: lambda x: tf.nn.avg_pool2d(x, 2, [2, 1], "VALID", form), [images]),
    (lambda form, n, c: lambda x: tf.nn.max_pool3d(x, 2, 2, "VALID", form), [volumes]),
    (lambda form, n, c: lambda x: tf.nn.avg_pool3d(x, [2, 3, 2], 2, "SAME", form), [volumes]),
    (lambda form, n, c: lambda x, filter: tf.nn.depthwise_conv2d(
        x, filter, [1] * 4, "SAME", form, (2, 3)), [images, normal(3, 2, 4, 2)]),
    (lambda form, n, c: lambda x, filter: tf.nn.depthwise_conv2d(
        x, filter, [*n, 2, 2, *c], [*([0, 0] for _ in n), [2, 1], [0, 3], *([0, 0] for _ in c)],
        form), [images, normal(3, 2, 4, 2)]),
    (lambda form, n, c: lambda x, filter: tf.nn.conv_transpose(
        x, filter, [2, *[5] * len(n[1:]), 14, 22, 12, *[5] * len(c)], 2, "SAME", form),
        [volumes, normal(3, 2, 3, 5, 4)]),
]:
    rank = inputs[0].shape.rank - 2
    first, last = FORMATS[rank][::-1]
    direct, reference = of_format(first, [1, 1], []), of_format(last, [1], [1])
    note("float32", lambda x, *filter: channels_last(direct(channels_first(x), *filter)),
         reference, inputs, True)
print(json.dumps({"worst": worst, "cases": cases}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "cases"),
    [
        pytest.param(_GRADIENTS_IN_TWO_DIMENSIONS, 216, id="gradients in two dimensions"),
        pytest.param(_EVERY_RANK, 103, id="every rank"),
    ],
)
def test_they_equal_the_same_convolution_written_out(
    program: str, cases: int, card: Card, run_tensorflow: RunClient, tensorflow_python: str
) -> None:
    """Results and gradients, on the GPU: each rank, stride, padding, dilation, number of groups.

    In two dimensions filters of every size too, and paddings that are given as numbers.
    """
    environ = {VARIABLE: str(bridge_for_command([tensorflow_python]))}
    done = json.loads(run_tensorflow(card, _PROGRAM + program, **environ).stdout)
    assert done["cases"] == cases
    assert done["worst"]["float32"] < 1e-5  # sums in another order
    assert done["worst"]["float16"] < 1e-2
