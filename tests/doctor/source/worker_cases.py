"""Scripts that send functions to workers: which the gpuconf in the script does not reach."""

from __future__ import annotations

from typing import Any

WORKERS: tuple[tuple[Any, ...], ...] = (
    (
        "workers", "joblib",
        """
        import gpuconf.auto
        import tensorflow as tf
        from joblib import Parallel, delayed
        def train(seed):
            model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
            return model.fit(x, y)
        scores = Parallel(n_jobs=4)(delayed(train)(seed) for seed in range(8))
        """, 7,
    ),
    (
        "workers", "joblib in a context, through another function",
        """
        import gpuconf, joblib
        gpuconf.configure("small-laptop")
        def build():
            import keras
            return keras.Sequential()
        def train(seed):
            return build().fit(x, y)
        with joblib.parallel_config(n_jobs=2):
            joblib.Parallel()(joblib.delayed(train)(seed) for seed in range(8))
        """, 9,
    ),
    (
        "workers", "a model of the script",
        """
        import gpuconf.auto
        import keras, joblib
        model = keras.models.load_model("m.keras")
        def score(part):
            return model.predict(part)
        joblib.Parallel(-1, verbose=1)(joblib.delayed(score)(part) for part in parts)
        """, 6,
    ),
    (
        "workers", "loky with an initializer of its own",
        """
        import gpuconf.auto
        import torch
        from loky import get_reusable_executor
        def quiet(): print("worker")
        def train(seed): return torch.zeros(seed)
        executor = get_reusable_executor(max_workers=2, initializer=quiet)
        print(list(executor.map(train, range(2))))
        """, 6,
    ),
    (
        "workers", "Dask's workers elsewhere",
        """
        import gpuconf.auto
        from dask.distributed import Client
        def train(seed):
            import tensorflow as tf
            return tf.zeros(seed)
        client = Client("tcp://node7:8786")
        client.submit(train, 1)
        """, 6,
    ),
    (
        "workers", "Ray's tasks and actors",
        """
        import gpuconf.auto
        import ray
        import jax.numpy as jnp
        ray.init()
        @ray.remote
        def train(seed):
            return jnp.zeros(seed)
        @ray.remote(num_gpus=1)
        class Trainer:
            def step(self):
                return jnp.ones(1)
        """, 6, 9,
    ),
    (
        "workers", "joblib with the initializer",
        """
        import gpuconf.auto
        import gpuconf, joblib
        import tensorflow as tf
        def train(seed): return tf.zeros(seed)
        def begin(): gpuconf.configure()
        with joblib.parallel_config(backend="loky", initializer=gpuconf.configure):
            joblib.Parallel(n_jobs=2)(joblib.delayed(train)(seed) for seed in range(8))
        joblib.Parallel(n_jobs=2, initializer=begin)(joblib.delayed(train)(s) for s in range(8))
        joblib.Parallel(n_jobs=2, initializer=lambda: gpuconf.configure("x"))(
            joblib.delayed(train)(s) for s in range(8))
        """,
    ),
    (
        "workers", "the worker function starts gpuconf",
        """
        import gpuconf.auto
        import joblib, ray
        def train(seed):
            import gpuconf
            gpuconf.configure()
            import tensorflow as tf
            return tf.zeros(seed)
        joblib.Parallel(n_jobs=2)(joblib.delayed(train)(seed) for seed in range(8))
        @ray.remote
        def other(seed):
            import gpuconf.auto
            import tensorflow as tf
            return tf.zeros(seed)
        """,
    ),
    (
        "workers", "pictures are read in workers, without a framework",
        """
        import gpuconf.auto
        import tensorflow as tf
        import cv2
        from joblib import Parallel, delayed
        def read(path): return cv2.resize(cv2.imread(path), (96, 96))
        images = Parallel(n_jobs=8)(delayed(read)(path) for path in paths)
        model = tf.keras.Sequential()
        """,
    ),
    (
        "workers", "threads, forks, or one job",
        """
        import gpuconf.auto
        import tensorflow as tf
        from joblib import Parallel, delayed, parallel_backend
        def train(seed): return tf.zeros(seed)
        Parallel(n_jobs=4, prefer="threads")(delayed(train)(seed) for seed in range(8))
        Parallel(n_jobs=4, require="sharedmem")(delayed(train)(seed) for seed in range(8))
        Parallel(n_jobs=4, backend="multiprocessing")(delayed(train)(seed) for seed in range(8))
        Parallel(n_jobs=1)(delayed(train)(seed) for seed in range(8))
        Parallel()(delayed(train)(seed) for seed in range(8))
        with parallel_backend("loky"):
            pass
        """,
    ),
    (
        "workers", "pools that import the script or inherit from it",
        """
        import gpuconf.auto
        import tensorflow as tf
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from dask.distributed import Client, LocalCluster
        def train(seed): return tf.zeros(seed)
        if __name__ == "__main__":
            with ProcessPoolExecutor(2) as pool:
                pool.map(train, range(8))
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                pool.map(train, range(8))
            client = Client(LocalCluster(n_workers=2))
            client.map(train, range(8))
            Client(n_workers=2).submit(train, 1)
        """,
    ),
    (
        "workers", "workers that start gpuconf",
        """
        import gpuconf.auto
        import gpuconf, loky, ray
        import tensorflow as tf
        from dask.distributed import Client
        def train(seed): return tf.zeros(seed)
        client = Client("tcp://node7:8786")
        client.run(gpuconf.configure)
        client.submit(train, 1)
        loky.get_reusable_executor(2, initializer=gpuconf.configure).submit(train, 1)
        ray.init(runtime_env={"worker_process_setup_hook": "gpuconf.configure"})
        remote = ray.remote(train)
        """,
    ),
    (
        "workers", "Ray with gpuconf's own hook, in a runtime_env by itself",
        """
        import gpuconf.auto
        import ray
        import jax.numpy as jnp
        env = {"worker_process_setup_hook": "gpuconf.ray.setup"}
        ray.init(runtime_env=env)
        @ray.remote
        def train(seed):
            return jnp.zeros(seed)
        """,
    ),
    (
        "workers", "Ray with gpuconf.ray.runtime_env",
        """
        import gpuconf.auto
        import gpuconf.ray, ray
        import jax.numpy as jnp
        ray.init(runtime_env=gpuconf.ray.runtime_env(profile="half-card"))
        @ray.remote
        def train(seed):
            return jnp.zeros(seed)
        """,
    ),
    (
        "workers", "no gpuconf at all",
        """
        import tensorflow as tf
        from joblib import Parallel, delayed
        def train(seed): return tf.zeros(seed)
        Parallel(n_jobs=4)(delayed(train)(seed) for seed in range(8))
        """,
    ),
)  # fmt: skip
