"""Make the devices, as any first tensor does, and tell what gpuconf and TensorFlow say of them."""

import json

import tensorflow as tf

import gpuconf

tensor = tf.constant([1.0])
made = gpuconf.activation()
print(
    "RESULT",
    json.dumps(
        {
            "device": tensor.device.rpartition("device:")[2],
            "gpus": len(tf.config.list_physical_devices("GPU")),
            "logical": len(tf.config.list_logical_devices("GPU")),
            "planned": [gpu.limit_bytes for gpu in made.plan.gpus],
            "planned_logical": [list(gpu.logical_devices_bytes) for gpu in made.plan.gpus],
            "settings": [setting.as_dict() for setting in made.settings],
        }
    ),
)
