"""In a job of Slurm: its variables, and TensorFlow's limit."""

import json  # noqa: I001  # gpuconf before TensorFlow
import os

import gpuconf.auto  # noqa: F401
import tensorflow as tf

READ = ("CUDA_", "GPU_DEVICE_ORDINAL", "SLURM_SHARDS", "SLURM_GPUS", "SLURM_JOB_GPUS")
READ += ("SLURM_STEP_GPUS", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_ARRAY_", "SLURMD_NODENAME")
gpus = tf.config.list_physical_devices("GPU")
tf.zeros([1])
limits = [
    device.memory_limit
    for gpu in gpus
    for device in tf.config.get_logical_device_configuration(gpu) or []
]
environ = {name: value for name, value in os.environ.items() if name.startswith(READ)}
print(json.dumps({"environ": environ, "limits": limits}))
