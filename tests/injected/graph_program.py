"""Version-1 sessions in a run: 2 GiB of an 8 GiB GPU, one place.  A user's program."""

import json
import os
import sys

import tensorflow as tf
from tensorflow.python.client import device_lib

v1 = tf.compat.v1
v1.disable_eager_execution()
seen = {}


def config(share):
    made = v1.ConfigProto()
    made.gpu_options.per_process_gpu_memory_fraction = share
    return made


def share(session):
    return session._config.gpu_options.per_process_gpu_memory_fraction


def gpus(devices):
    return [device.name for device in devices if device.device_type == "GPU"]


# A process for itself, under a plan that hides the GPUs.
report_end, report = os.pipe()
if os.fork() == 0:
    sys.modules["_gpuconf_injected_variable"].current().hides_gpus = True
    with v1.Session() as session:
        found = gpus(session.list_devices())
    found += gpus(device_lib.list_local_devices()) + gpus(tf.config.list_logical_devices())
    os.write(report, json.dumps(found).encode())
    os._exit(0)
os.wait()
seen["hidden"] = json.loads(os.read(report_end, 999).decode())

# A worker takes the one place first; then the program itself gets none, where it requests devices.
ready, ready_end = os.pipe()
go_end, go = os.pipe()
if os.fork() == 0:
    with v1.Session():
        os.write(go, b"x")
        os.read(ready, 1)
    os._exit(0)
os.read(go_end, 1)
try:
    v1.Session()
except RuntimeError as error:
    seen["no place"] = [type(error).__name__, str(error)]
os.write(ready_end, b"x")
os.wait()

with v1.Session(config=config(0.9)) as session:
    (gpu,) = [d for d in session.list_devices() if d.device_type == "GPU"]
    seen["limit"] = gpu.memory_limit_bytes
    seen["0.9"] = share(session)
seen["0.1"] = share(v1.Session(config=config(0.1)))
interactive = v1.InteractiveSession(config=config(0.8))
seen["interactive"] = share(interactive)
interactive.close()
default = v1.Session()._config.gpu_options
seen["default"] = [list(each.memory_limit_mb) for each in default.experimental.virtual_devices]
monitored = v1.train.MonitoredTrainingSession(config=config(0.7))
seen["monitored"] = share(monitored._tf_sess())
virtual = config(0)
virtual.gpu_options.experimental.virtual_devices.add().memory_limit_mb.extend([3072, 1024])
made = v1.Session(config=virtual)._config.gpu_options.experimental.virtual_devices
seen["virtual"] = list(made[0].memory_limit_mb)
server = tf.distribute.Server.create_local_server(config=config(0.6))
options = server.server_def.default_session_config.gpu_options
seen["server"] = options.per_process_gpu_memory_fraction
hidden = v1.ConfigProto(device_count={"GPU": 0})
seen["without GPU"] = share(v1.Session(config=hidden))
try:
    v1.Session(config="a text")
except TypeError:
    seen["a mistake"] = "TypeError"
print("SEEN", json.dumps(seen))
