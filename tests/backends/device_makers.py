"""Run each call alone in a forked process and print what it left; see test_early_init.py."""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import tensorflow as tf
from tensorflow.python.client import device_lib

from gpuconf.backends.tensorflow.early_init import EAGER_MAKERS, devices_exist

CALLS = {
    "constant": lambda: tf.constant(1.0),
    "Variable": lambda: tf.Variable(1.0),
    "convert_to_tensor": lambda: tf.convert_to_tensor(1),
    "cast": lambda: tf.cast(1, "float32"),
    "zeros": lambda: tf.zeros(1),
    "ones": lambda: tf.ones(1),
    "fill": lambda: tf.fill([1], 1.0),
    "eye": lambda: tf.eye(2),
    "range": lambda: tf.range(3),
    "one_hot": lambda: tf.one_hot([1], 2),
    "normal": lambda: tf.random.normal([1]),
    "uniform": lambda: tf.random.uniform([1]),
    "from_tensor_slices": lambda: tf.data.Dataset.from_tensor_slices([1]),
    "TensorArray": lambda: tf.TensorArray("float32", 1),
    "device": lambda: tf.device("CPU:0").__enter__(),
    "Generator": lambda: tf.random.Generator.from_seed(1),
    "get_global_generator": tf.random.get_global_generator,
    "MirroredStrategy": tf.distribute.MirroredStrategy,
    "list_logical_devices": tf.config.list_logical_devices,
    "get_memory_info": lambda: tf.config.experimental.get_memory_info("GPU:0"),
    "compile": lambda: keras.Sequential([keras.Input((2,))]).compile("sgd", "mse"),
    "Sequential": lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]),
    "Dropout": lambda: keras.layers.Dropout(0.5),
    "Adam": keras.optimizers.Adam,
    "SGD": keras.optimizers.SGD,
    "RMSprop": keras.optimizers.RMSprop,
    "Mean": keras.metrics.Mean,
    "SeedGenerator": keras.random.SeedGenerator,
    "list_local_devices": device_lib.list_local_devices,
    "gpu_device_name": tf.test.gpu_device_name,
    "is_gpu_available": tf.test.is_gpu_available,
    "Session": tf.compat.v1.Session,
    "InteractiveSession": tf.compat.v1.InteractiveSession,
    "Dense": lambda: keras.layers.Dense(1),
    "Input": lambda: keras.Input((2,)),
    "set_seed": lambda: tf.random.set_seed(1),
    "list_physical_devices": tf.config.list_physical_devices,
}


def verdict(name: str) -> str:
    """What the call alone leaves: the eager context, only a CUDA context, or nothing."""
    child = os.fork()
    if child == 0:
        try:
            CALLS[name]()
        finally:  # also where the call failed: on a simulated GPU no kernel runs
            evidence = devices_exist()
            os._exit(0 if evidence is None else 1 if evidence.makers is EAGER_MAKERS else 2)
    _, status = os.waitpid(child, 0)
    return ("none", "eager", "silent")[os.waitstatus_to_exitcode(status)]


if __name__ == "__main__":
    for call in CALLS:
        print(f"call:{call}", verdict(call), flush=True)
