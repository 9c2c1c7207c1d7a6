"""What stands in half the scripts there are, after `import gpuconf.auto`."""

import json

import tensorflow as tf

import gpuconf

gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
tf.config.set_logical_device_configuration(
    gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=900_000)]
)
available = tf.test.is_gpu_available()
name = tf.test.gpu_device_name()
tensor = tf.constant([1.0])
late = None
try:
    gpuconf.configure("dedicated")
except gpuconf.TooLateError as error:
    late = str(error)
again = gpuconf.configure() is gpuconf.activation()
print(
    "RESULT",
    json.dumps(
        {
            "available": available,
            "name": name,
            "again": again,
            "late": late,
            "limits": [
                setting.effective
                for setting in gpuconf.activation().settings
                if setting.name.startswith("limit of")
            ],
        }
    ),
)
