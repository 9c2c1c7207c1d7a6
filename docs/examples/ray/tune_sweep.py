"""Ray Tune: eight trials, four at a time on one GPU, each limited to a quarter of its memory.

python tune_sweep.py
"""

import ray
from ray import tune


def train(config):
    import keras
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(1).random((1024, 8), dtype=np.float32)
    model = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(config["rate"]), "mse")
    history = model.fit(x, x.sum(axis=1), epochs=3, verbose=0)

    (gpu,) = tf.config.list_physical_devices("GPU")
    (device,) = tf.config.get_logical_device_configuration(gpu)
    tune.report({"loss": history.history["loss"][-1], "limit_mib": device.memory_limit})


ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"})
tuner = tune.Tuner(
    tune.with_resources(train, {"gpu": 0.25}),
    param_space={"rate": tune.grid_search([0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4])},
)
for trial in tuner.fit():
    seen = trial.metrics
    print(f"rate {seen['config']['rate']}: loss {seen['loss']:.3f}, limit {seen['limit_mib']} MiB")
