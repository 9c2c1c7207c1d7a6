"""Eager TensorFlow in a run whose plan our own code applies: 2 GiB of an 8 GiB GPU, one place.

A user's program: it knows nothing of the plan, and writes what it sees.
"""

import json
import subprocess
import sys

seen = {}
# A submodule first, as old programs do.
from tensorflow.python.framework import ops

import tensorflow as tf

ASK = """
import sys
sys.modules['_gpuconf_injected_site'].load('variable').current().take_places()
"""


def other_process():
    """What another process of the run that wants a place gets."""
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
    return done.returncode, done.stderr


seen["loader"] = type(tf.__loader__).__name__
seen["full guards"] = "gpuconf.session.configure" in sys.modules
seen["own modules"] = "_gpuconf_injected_on_tensorflow" in sys.modules
(gpu,) = tf.config.list_physical_devices("GPU")
seen["limit when listed"] = [
    device.memory_limit for device in tf.config.get_logical_device_configuration(gpu)
]
tf.config.experimental.set_memory_growth(gpu, True)
seen["growth"] = tf.config.experimental.get_memory_growth(gpu)
tf.config.experimental.set_memory_growth(gpu, False)
kind = tf.config.LogicalDeviceConfiguration
tf.config.set_logical_device_configuration(gpu, [kind(3072), kind(1024)])
seen["scaled"] = [d.memory_limit for d in tf.config.get_logical_device_configuration(gpu)]
tf.config.set_logical_device_configuration(gpu, [kind(512)])
seen["smaller"] = [d.memory_limit for d in tf.config.get_logical_device_configuration(gpu)]
tf.config.set_logical_device_configuration(gpu, [kind(2048)])
seen["place before devices"] = other_process()[0]

tf.config.list_logical_devices("GPU")
seen["place with devices"] = other_process()
from tensorflow.python.client import device_lib


def limits(devices):
    return [device.memory_limit for device in devices if device.device_type == "GPU"]


seen["listed"] = limits(device_lib.list_local_devices())
config = tf.compat.v1.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.9
with ops.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
    seen["session"] = [d.memory_limit_bytes for d in session.list_devices() if "GPU" in d.name]
print("SEEN", json.dumps(seen))
