"""Operations that networks are made of: products, convolutions, normalisation, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.training.lazily import tf
from tests.training.operation_case import SEED, Operation, gradients, named, normal

_IMAGES = normal((2, 9, 10, 4))
_HALF_TYPES = ("float16", "bfloat16")


def _activations(x: Any) -> list[Any]:
    kinds = "relu relu6 elu selu softplus softsign leaky_relu gelu silu sigmoid tanh softmax"
    return [getattr(tf.nn, kind)(x) for kind in (*kinds.split(), "log_softmax")]


def _math(x: Any) -> list[Any]:
    positive = tf.abs(x) + 0.5
    both = "exp expm1 sin cos tan atan sinh cosh asinh erf erfc square sign floor rint"
    logs = "log log1p sqrt rsqrt reciprocal lgamma digamma"
    return [
        *(getattr(tf.math, name)(x) for name in both.split()),
        *(getattr(tf.math, name)(positive) for name in logs.split()),
        tf.math.pow(positive, x),
        tf.math.atan2(x, positive),
        tf.math.xlogy(positive, positive),
        tf.math.squared_difference(x, positive),
        tf.math.divide_no_nan(x, tf.nn.relu(x)),
    ]


def _batch_norm(x: Any, scale: Any, offset: Any, *, training: bool) -> Any:
    given = {} if training else {"mean": scale * 0.1, "variance": tf.abs(offset) + 1.0}
    return tf.compat.v1.nn.fused_batch_norm(
        x, scale, offset, is_training=training, **given
    )[0 : 3 if training else 1]  # fmt: skip


def _positive_definite() -> list[Any]:
    square = np.random.default_rng(SEED).standard_normal((2, 5, 5))
    return [tf.constant(square @ square.transpose(0, 2, 1) + 5 * np.eye(5), "float32")]


def _gradient_of_gradient(x: Any, k: Any) -> Any:
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = tf.nn.max_pool2d(tf.nn.conv2d(x, k, 1, "SAME"), 2, 2, "SAME")
        loss = tf.reduce_sum(tf.tanh(y) ** 2)
    return inner.gradient(loss, x)


PRODUCTS = {
    "matrix products, all transposed": gradients(
        lambda a, b: [
            tf.matmul(a, b),
            tf.matmul(a, a, transpose_b=True),
            tf.matmul(b, b, transpose_a=True),
        ],
        normal((17, 33), (33, 9)),
    )
}

CONVOLUTIONS = {
    "conv 2-D, strides": gradients(
        lambda x, k: [tf.nn.conv2d(x, k, 2, "SAME"), tf.nn.conv2d(x, k, [1, 1], "VALID")],
        normal((2, 9, 10, 4), (3, 2, 4, 6)),
    ),
    "conv 3-D": gradients(
        lambda x, k: tf.nn.conv3d(x, k, [1, 2, 1, 2, 1], "SAME"),
        normal((1, 6, 7, 8, 2), (2, 3, 3, 2, 4)),
    ),
    "depthwise and separable": gradients(
        lambda x, d, p: [
            tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "SAME"),
            tf.nn.separable_conv2d(x, d, p, [1, 2, 2, 1], "VALID"),
        ],
        normal((2, 9, 10, 4), (3, 3, 4, 2), (1, 1, 8, 5)),
    ),
    "dilation 2-D": gradients(
        lambda x, k: tf.nn.dilation2d(x, k, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1]),
        normal((2, 9, 10, 4), (3, 3, 4)),
    ),
}

POOLS = {
    "max pool 1-D, 2-D": gradients(
        lambda x: [
            tf.nn.max_pool2d(x, 2, 2, "VALID"),
            tf.nn.max_pool2d(x, 3, 2, "SAME"),
            tf.nn.max_pool1d(x[0], 3, 1, "SAME"),
        ],
        _IMAGES,
    ),
    "average pool 1-D, 2-D": gradients(
        lambda x: [
            tf.nn.avg_pool2d(x, 2, 2, "VALID"),
            tf.nn.avg_pool2d(x, 3, 2, "SAME"),
            tf.nn.avg_pool1d(x[0], 3, 1, "SAME"),
        ],
        _IMAGES,
    ),
    "pools 3-D": gradients(
        lambda x: [tf.nn.max_pool3d(x, 2, 2, "SAME"), tf.nn.avg_pool3d(x, 3, 1, "VALID")],
        normal((1, 6, 7, 8, 2)),
    ),
    "max pool with arg max": gradients(
        lambda x: list(tf.nn.max_pool_with_argmax(x, 2, 2, "VALID")), _IMAGES
    ),
    "local response normalisation": gradients(lambda x: tf.nn.lrn(x, 2), _IMAGES),
    "second gradient of a convolution": gradients(
        _gradient_of_gradient, normal((2, 6, 6, 2), (3, 3, 2, 3))
    ),
}


NORMALISATION = {
    "batch norm, training": gradients(
        lambda x, s, o: _batch_norm(x, s, o, training=True), normal((4, 5, 6, 3), (3,), (3,))
    ),
    "batch norm, inference": gradients(
        lambda x, s, o: _batch_norm(x, s, o, training=False), normal((4, 5, 6, 3), (3,), (3,))
    ),
    "activations": gradients(_activations, normal((5, 7))),
    "elementwise mathematics": gradients(_math, normal((5, 70))),
    "cross entropy, sparse and dense": gradients(
        lambda x, y: [
            tf.nn.sparse_softmax_cross_entropy_with_logits([1, 3, 2, 0, 6], x),
            tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), x),
            tf.nn.sigmoid_cross_entropy_with_logits(tf.sigmoid(y), x),
        ],
        normal((5, 7), (5, 7)),
    ),
    "clipping by value, norm, global norm": gradients(
        lambda x, y: [
            tf.clip_by_value(x, -0.5, 1.0),
            tf.clip_by_norm(x, 1.5, 1),
            *tf.clip_by_global_norm([x, y], 0.7)[0],
        ],
        normal((5, 7), (5, 7)),
    )._replace(tolerance=2e-7, reason="a bit between two runs on the CPU alone, in a graph"),
}

IMAGES = {
    "resize bilinear and nearest": gradients(
        lambda x: [
            tf.image.resize(x, [17, 13]),
            tf.image.resize(x, [5, 4]),
            tf.image.resize(x, [18, 20], "nearest"),
            tf.compat.v1.image.resize_bilinear(x, [17, 13], align_corners=True),
        ],
        _IMAGES,
    ),
    "crop and resize": gradients(
        lambda x: tf.image.crop_and_resize(x, [[0.1, 0.0, 0.8, 0.9]] * 2, [0, 1], [6, 6]), _IMAGES
    ),
    "patches": gradients(
        lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"),
        _IMAGES,
    ),
    "colors": gradients(
        lambda x: [
            tf.image.rgb_to_hsv(tf.sigmoid(x)[..., :3]),
            tf.image.flip_left_right(x),
            tf.image.rot90(x),
        ],
        _IMAGES,
    ),
}

LINEAR_ALGEBRA = {
    "cholesky and its solve": gradients(
        lambda m: [tf.linalg.cholesky(m), tf.linalg.cholesky_solve(m, m)], _positive_definite
    ),
    "inverse, solve, determinant": gradients(
        lambda m: [tf.linalg.inv(m), tf.linalg.solve(m, m + 1.0), tf.linalg.det(m / 5)],
        _positive_definite,
    ),
    "SVD": gradients(lambda m: list(tf.linalg.svd(m)), _positive_definite),
    "Fourier 1-D, 2-D, 3-D, real": gradients(
        lambda x: [
            tf.math.real(tf.signal.fft(tf.cast(x, "complex64"))),
            tf.math.imag(tf.signal.fft2d(tf.cast(x, "complex64"))),
            tf.math.real(tf.signal.ifft3d(tf.cast(x, "complex64"))),
            tf.abs(tf.signal.rfft(x)),
            tf.signal.irfft2d(tf.signal.rfft2d(x)),
        ],
        normal((3, 8, 16)),
    ),
    "complex arithmetic": gradients(
        lambda x, y: [
            tf.abs(tf.complex(x, y)),
            tf.math.angle(tf.complex(x, y)),
            tf.math.real(tf.complex(x, y) @ tf.transpose(tf.complex(y, x), conjugate=True)),
        ],
        normal((5, 7), (5, 7)),
    ),
}


def _halves(name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    """The same in both half types."""
    return {
        f"{name}, {dtype}": gradients(function, normal(*shapes, dtype=dtype))
        for dtype in _HALF_TYPES
    }


def _half_batch_norm(x: Any) -> Any:
    scale = tf.constant([1.0, 0.5, 2.0])
    return _batch_norm(x, scale, scale, training=True)


HALVES: dict[str, Operation] = {
    **_halves("matrix product", lambda a, b: a @ b, (17, 33), (33, 9)),
    **_halves(
        "convolution", lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"), (2, 8, 8, 3), (3, 3, 3, 4)
    ),
    **_halves("max pool", lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), (2, 8, 8, 3)),
    **_halves("average pool", lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), (2, 8, 8, 3)),
    **_halves("batch norm", _half_batch_norm, (2, 8, 8, 3)),
    **_halves("softmax", lambda x: [tf.nn.softmax(x), tf.nn.gelu(x), tf.nn.relu(x)], (5, 7)),
    **_halves(
        "sums", lambda x: [tf.reduce_sum(x, 0), tf.reduce_mean(x), tf.cumsum(x, 1)], (30, 40)
    ),
    **_halves("bias", lambda x, b: [tf.nn.bias_add(x, b), x + b], (5, 6, 7), (7,)),
    **_halves("gather", lambda x: tf.gather(x, [1, 1, 0]), (5, 7)),
}

DENSE_OPERATIONS = named(
    {**PRODUCTS, **CONVOLUTIONS, **POOLS, **NORMALISATION, **IMAGES, **LINEAR_ALGEBRA, **HALVES}
)
