"""A program for TensorFlow 1.4 to 2.x on a GPU: makes devices in one way, and writes its limits.

The way is the first argument.  As users write: it knows nothing of gpuconf.  Python 3.6 on.
"""

import json
import sys

way = sys.argv[1]
if way == "keras":
    import keras
import tensorflow as tf
from tensorflow.python.client import device_lib

is_2 = not tf.__version__.startswith("1.")
v1 = tf.compat.v1 if is_2 else tf
seen = {"version": tf.__version__}


def greedy(share=0.9):
    config = v1.ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = share
    return config


def listed(devices):
    """The limit of each GPU in MiB."""
    return [
        int(getattr(d, "memory_limit_bytes", 0) or d.memory_limit) >> 20
        for d in devices
        if d.device_type == "GPU"
    ]


def with_session(session):
    with session:
        if hasattr(session, "list_devices"):
            return listed(session.list_devices())
    return None


def compute():
    """Make the devices of eager mode."""
    with tf.device("/gpu:0"):
        tf.zeros([4])


if way == "session":
    with tf.Graph().as_default():
        seen["greedy"] = with_session(v1.Session(config=greedy()))
        seen["asked"] = v1.Session(
            config=greedy(0.1)
        )._config.gpu_options.per_process_gpu_memory_fraction
elif way == "default":
    with tf.Graph().as_default():
        seen["default"] = with_session(v1.Session())
elif way == "monitored":
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        with v1.train.MonitoredTrainingSession(config=greedy()) as session:
            options = session._tf_sess()._config.gpu_options
            seen["share"] = round(options.per_process_gpu_memory_fraction, 3)
elif way == "listing":
    seen["gpu_device_name"] = tf.test.gpu_device_name()[-5:]
    seen["listing"] = listed(device_lib.list_local_devices())
elif way == "server":
    server = v1.train.Server.create_local_server(config=greedy())
    with tf.Graph().as_default():
        seen["server"] = with_session(v1.Session(server.target))
elif way == "eager":
    if not is_2:
        tf.enable_eager_execution()
    compute()
elif way == "eager_config":
    tf.enable_eager_execution(config=greedy())
    compute()
elif way == "contrib":  # eager execution as in 1.4 to 1.6
    from tensorflow.contrib.eager.python import tfe

    if tf.__version__ >= "1.5":
        tfe.enable_eager_execution(config=greedy())
    else:
        tfe.enable_eager_execution()
    compute()
elif way == "tf_config":  # 2.x: what scripts set themselves
    (gpu,) = tf.config.experimental.list_physical_devices("GPU")
    tf.config.experimental.set_memory_growth(gpu, True)
    seen["growth"] = tf.config.experimental.get_memory_growth(gpu)
    kind = tf.config.experimental.VirtualDeviceConfiguration
    tf.config.experimental.set_virtual_device_configuration(gpu, [kind(memory_limit=4096)])
    compute()
    seen["tf_config"] = listed(device_lib.list_local_devices())
elif way == "keras":
    from keras import backend

    seen["keras"] = keras.__version__
    session = backend.get_session()
    seen["limit"] = with_session(session)
    if seen["limit"] is None:
        share = session._config.gpu_options.per_process_gpu_memory_fraction
        seen["share"] = round(share, 3)
if way.startswith(("eager", "contrib")):
    seen["listing"] = listed(device_lib.list_local_devices())
print("SEEN " + json.dumps(seen))
