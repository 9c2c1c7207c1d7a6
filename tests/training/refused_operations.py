"""What the bridge cannot compute: run one of these on the GPU and it must say which it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.training.on_device import Seen, check_device, run_cases
from tests.training.lazily import keras, tf


class Refused(NamedTuple):
    """``run`` must fail with one of ``words`` in what it says: the operation, or the reason."""

    run: Callable[[], Any]
    words: tuple[str, ...]


def _on_gpu(function: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        with tf.device("/GPU:0"):
            return function()

    return run


def _ctc() -> Any:
    logits = tf.random.normal([5, 2, 4])
    labels = tf.sparse.from_dense([[1, 2], [2, 0]])
    return tf.raw_ops.CTCLossV2(
        inputs=logits,
        labels_indices=labels.indices,
        labels_values=labels.values,
        sequence_length=[5, 5],
    )


def _two_layers_of_cudnn() -> Any:
    x, state = tf.ones([3, 2, 4]), tf.zeros([2, 2, 5])
    return tf.raw_ops.CudnnRNNV3(
        input=x,
        input_h=state,
        input_c=state,
        params=tf.ones([2000]),
        sequence_lengths=[3, 3],
        num_proj=0,
    )


def _blocks_of_channels() -> Any:
    """Only a GPU's own kernel takes these with their channels first."""
    return tf.nn.depth_to_space(tf.ones([2, 4, 8, 8]), 2, data_format="NCHW").numpy()


def _on_the_host() -> Any:
    """Not the bridge's: the check that all comparisons rest on must see this."""
    with tf.device("/CPU:0"):
        check_device("a sum", tf.ones([2]) + 1.0)


def _masked_with_holes() -> Any:
    """In a graph; eagerly Keras continues without cuDNN."""
    layer = keras.layers.LSTM(3)
    mask = tf.constant([[True, False, True], [True] * 3])
    return tf.function(lambda x: layer(x, mask=mask))(tf.ones([2, 3, 4])).numpy()


def _nccl() -> Any:
    return tf.raw_ops.NcclAllReduce(
        input=tf.ones([3]), reduction="sum", num_devices=1, shared_name="x"
    ).numpy()


def _own_cuda_kernel() -> Any:
    return tf.raw_ops.FFTND(
        input=tf.complex(tf.ones([4, 4]), tf.ones([4, 4])), fft_length=[4, 4], axes=[0, 1]
    ).numpy()


def _string_on_gpu() -> Any:
    tf.config.set_soft_device_placement(False)
    try:
        return tf.strings.upper(tf.constant(["a"]))
    finally:
        tf.config.set_soft_device_placement(True)


def _gradient_of_input(
    strides: tuple[int, ...] = (1, 1, 1, 1), gradient: tuple[int, ...] = (1, 4, 4, 4)
) -> Callable[[], Any]:
    """A dilated convolution's, which the bridge computes itself, of shapes that cannot be."""
    return lambda: tf.raw_ops.Conv2DBackpropInput(
        input_sizes=[1, 8, 8, 2],
        filter=tf.ones((3, 3, 2, 4)),
        out_backprop=tf.ones(gradient),
        strides=list(strides),
        padding="VALID",
        dilations=[1, 2, 2, 1],
    ).numpy()


def _cudnn(lengths: list[int], cell: tuple[int, ...] = (1, 2, 2)) -> Callable[[], Any]:
    """An LSTM of 3 steps, 2 sequences and 2 units; with the right arguments it computes."""

    def run() -> Any:
        found = tf.raw_ops.CudnnRNNV3(
            input=tf.ones([3, 2, 2]),
            input_h=tf.zeros([1, 2, 2]),
            input_c=tf.zeros(cell),
            params=tf.ones([4 * 2 * (2 + 2 + 2)]),
            sequence_lengths=lengths,
        )
        return found.output.numpy()

    return run


REFUSED = {
    "CTC loss of cuDNN": Refused(_on_gpu(_ctc), ("CTCLossV2",)),
    "two layers in one CudnnRNNV3": Refused(_on_gpu(_two_layers_of_cudnn), ("CudnnRNNV3",)),
    "channels first: depth to space": Refused(_blocks_of_channels, ("DepthToSpace",)),
    "a mask with holes, cuDNN": Refused(_masked_with_holes, ("right-padded",)),
    "a stride of 0": Refused(_gradient_of_input(strides=(1, 0, 0, 1)), ("from 1 up",)),
    "a gradient of another shape": Refused(
        _gradient_of_input(gradient=(1, 9, 9, 4)), ("does not fit",)
    ),
    "a state of another shape": Refused(_cudnn([3, 2], (1, 1, 1)), ("input_c is [1,1,1]",)),
    "too few sequence lengths": Refused(_cudnn([1]), ("must be [2]",)),
    "a sequence of -1 steps": Refused(_cudnn([-1, 2]), ("sequence 0 has -1 of 3",)),
    "a sequence of 9 steps": Refused(_cudnn([9, 2]), ("sequence 0 has 9 of 3",)),
    "NCCL": Refused(_on_gpu(_nccl), ("NCCL",)),
    "FFTND": Refused(_on_gpu(_own_cuda_kernel), ("FFTND",)),
    "strings": Refused(_on_gpu(_string_on_gpu), ("StringUpper", "Could not satisfy device")),
    "computed on the host": Refused(_on_the_host, ("not on GPU:0",)),
}


def run(name: str) -> Seen:
    """Run one; that it comes back at all is told as facts."""
    REFUSED[name].run()
    return Seen({"it came back": np.array([1.0])}, {})


if __name__ == "__main__":
    run_cases(run)
