"""Ray Train with Keras 3: two workers on one GPU, each limited to 0.4 of its memory.

python train_keras.py

TensorflowTrainer is for MultiWorkerMirroredStrategy, which Keras 3 does not support.
"""

import ray
from ray.train import ScalingConfig, get_context, report
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def train():
    import keras
    import numpy as np
    import tensorflow as tf

    rank = get_context().get_world_rank()
    x = np.random.default_rng(rank).random((1024, 8), dtype=np.float32)
    model = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    history = model.fit(x, x.sum(axis=1), epochs=3, verbose=0)

    (gpu,) = tf.config.list_physical_devices("GPU")
    (device,) = tf.config.get_logical_device_configuration(gpu)
    print(f"worker {rank}: Keras {keras.__version__}, limit {device.memory_limit} MiB")
    report({"loss": history.history["loss"][-1]})


# Not in RunConfig(worker_runtime_env=...): Ray calls a job's setup hook, but not a worker's own.
ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"})
trainer = DataParallelTrainer(
    train,
    scaling_config=ScalingConfig(
        num_workers=2, use_gpu=True, resources_per_worker={"GPU": 0.4, "CPU": 0.5}
    ),
)
trainer.fit()
