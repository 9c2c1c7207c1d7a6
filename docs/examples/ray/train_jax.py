"""Ray Train with JAX: two workers on one GPU, each limited to 0.4 of its memory.

python train_jax.py

JaxTrainer takes whole GPUs alone: with a part of one it ends in a TypeError (Ray 2.60).
"""

import ray
from ray.train import ScalingConfig, get_context, report
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def train():
    import jax
    import jax.numpy as jnp

    x = jnp.ones((1024, 8))

    @jax.jit
    def step(weights):
        loss, slope = jax.value_and_grad(lambda w: jnp.mean((x @ w - x.sum(1)) ** 2))(weights)
        return loss, weights - 0.01 * slope

    weights = jnp.zeros(8)
    for _ in range(3):
        loss, weights = step(weights)

    (gpu,) = jax.local_devices()
    limit = gpu.memory_stats()["bytes_limit"]
    print(f"worker {get_context().get_world_rank()}: limit {limit / 2**20:.0f} MiB on {gpu}")
    report({"loss": float(loss)})


ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"})
trainer = DataParallelTrainer(
    train,
    scaling_config=ScalingConfig(
        num_workers=2, use_gpu=True, resources_per_worker={"GPU": 0.4, "CPU": 0.5}
    ),
)
trainer.fit()
