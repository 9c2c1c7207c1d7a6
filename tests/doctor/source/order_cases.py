"""Scripts about what comes first: our line, variables, devices."""

from __future__ import annotations

from typing import Any

ORDER: tuple[tuple[Any, ...], ...] = (
    ("syntax", "print statement", 'import keras\nprint "loss"\n', 2),
    ("syntax", "sound", "import keras\n"),
    ("unedited", "a script of 2018", "import tensorflow as tf\ntf.Session()\n"),
    ("unedited", "a script of today", "import keras\n"),
    ("auto_missing", "keras alone", "import os\nfrom tensorflow import keras\n", 2),
    ("auto_missing", "torch", "import torch\n", 1),
    ("auto_missing", "is there", "import gpuconf.auto\nimport keras\n"),
    ("auto_missing", "configure instead", "import gpuconf, keras\ngpuconf.configure('x')\n"),
    ("auto_missing", "no framework", "import os, csv\n"),
    ("auto_late", "after tensorflow", "import tensorflow as tf\nimport gpuconf.auto\n", 2),
    ("auto_late", "after keras", "from keras import layers\nfrom gpuconf import auto\n", 2),
    ("auto_late", "after hub", "import tensorflow_hub\nimport gpuconf.auto\n", 2),
    (
        "auto_late", "after devices",
        """
        import tensorflow as tf
        x = tf.constant(1.0)
        def main():
            import gpuconf.auto
        main()
        """, 4,
    ),
    ("auto_late", "first", "import os\nimport gpuconf.auto\nimport keras\n"),
    ("auto_late", "torch first is fine", "import torch\nimport gpuconf.auto\nimport keras\n"),
    (
        "auto_late", "after torch's card",
        """
        import torch
        x = torch.zeros(3, device="cuda:0")
        import gpuconf.auto
        """, 3,
    ),
    (
        "auto_late", "after torch's card, moved there",
        """
        import torch
        model = torch.nn.Linear(2, 2).to("cuda")
        import gpuconf.auto
        """, 3,
    ),
    ("auto_late", "after jax's devices", "import jax\njax.devices()\nimport gpuconf.auto\n", 3),
    (
        "auto_late", "torch on the CPU",
        """
        import torch
        x = torch.zeros(3, device="cpu") if torch.cuda.is_available() else torch.ones(2)
        import gpuconf.auto
        """,
    ),
    (
        "auto_late", "the other arm",
        """
        import sys
        if sys.argv[1:] == ["--old"]:
            import tensorflow as tf
        else:
            import gpuconf.auto
        """,
    ),
    (
        "env_late", "log level",
        'import tensorflow as tf\nimport os\nos.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"\n', 3,
    ),
    ("env_late", "putenv", 'import os, keras\nos.putenv("KERAS_BACKEND", "jax")\n', 2),
    (
        "env_late", "update and setdefault",
        """
        from os import environ as e
        from tensorflow.keras import layers
        e.update({"KERAS_HOME": "/k"}, TF_ENABLE_ONEDNN_OPTS="0")
        e.setdefault("TF_USE_LEGACY_KERAS", "1")
        e |= {"TF_CPP_MIN_VLOG_LEVEL": "0"}
        e.update(dict(KERAS_BACKEND="jax"))
        """, 3, 3, 4, 5, 6,
    ),
    (
        "env_late", "hidden after the GPUs are listed",
        """
        import os as o
        import tensorflow as tf
        print(tf.config.list_physical_devices("GPU"))
        o.environ["CUDA_VISIBLE_DEVICES"] = "1"
        """, 4,
    ),
    (
        "env_late", "growth after a tensor, in a function",
        """
        import os
        import tensorflow as tf
        def setup():
            os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        x = tf.zeros([3])
        if __name__ == "__main__":
            setup()
        """, 4,
    ),
    (
        "env_late", "jax and torch",
        """
        import os, jax, torch
        print(jax.devices(), torch.cuda.is_available())
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
        """, 3, 4,
    ),
    (
        "env_late", "torch's allocator after its start",
        """
        import os, torch
        os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
        x = torch.empty(3, device="cuda")
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        """, 4,
    ),
    (
        "env_late", "keras on torch",
        "import os, keras\nos.environ['KERAS_TORCH_DEVICE'] = 'cpu'\n", 2,
    ),
    (
        "env_late", "read at the first device, and in time",
        """
        import os
        import tensorflow as tf
        from keras import layers
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        os.environ["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"
        gpus = tf.config.list_physical_devices("GPU")
        os.environ["TF_GPU_ALLOCATOR"] = "cuda_malloc_async"
        """,
    ),
    (
        "env_late", "keras's variables after tensorflow alone",
        """
        import os
        import tensorflow as tf
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
        os.environ["WANDB_MODE"] = "offline"
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
        """,
    ),
    (
        "env_late", "maybe before, maybe not",
        """
        import os, sys
        if len(sys.argv) > 1:
            import tensorflow as tf
            x = tf.zeros([3])
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        """,
    ),
    (
        "env_late", "an import in a function that nobody calls",
        """
        import os
        def later():
            import tensorflow as tf
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        """,
    ),
    (
        "env_late", "set in time, and once more",
        """
        import os
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        import tensorflow as tf
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        """,
    ),
    (
        "env_late", "a worker that is spawned",
        """
        import os
        from multiprocessing import get_context
        def work(number):
            os.environ["CUDA_VISIBLE_DEVICES"] = str(number)
            import tensorflow as tf
            tf.zeros([3])
        if __name__ == "__main__":
            import tensorflow as tf
            tf.zeros([3])
            get_context("spawn").Process(target=work, args=(1,)).start()
        """,
    ),
    (
        "env_late", "another thing called os",
        """
        import tensorflow
        import my_os as os
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        """,
    ),
    (
        "devices_early", "is_gpu_available",
        """
        import tensorflow as tf
        print(tf.test.is_gpu_available())
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        """, 4,
    ),
    (
        "devices_early", "list_local_devices by its own name",
        """
        from tensorflow.python.client.device_lib import list_local_devices
        import tensorflow
        print(list_local_devices())
        gpus = tensorflow.config.list_physical_devices("GPU")
        tensorflow.config.set_visible_devices(gpus[1:], "GPU")
        """, 5,
    ),
    (
        "devices_early", "a tensor, in main",
        """
        import tensorflow as tf
        weights = tf.Variable(1.0)
        def limit():
            gpus = tf.config.list_physical_devices("GPU")
            one = tf.config.LogicalDeviceConfiguration(memory_limit=2048)
            tf.config.set_logical_device_configuration(gpus[0], [one])
        def main():
            limit()
        if __name__ == "__main__":
            main()
        """, 6,
    ),
    (
        "devices_early", "a tensor beside a function nobody calls",
        """
        import tensorflow as tf
        x = tf.ones([2])
        def grow(gpu):
            tf.config.experimental.set_memory_growth(gpu, True)
        """, 4,
    ),
    (
        "devices_early", "a tensor where the file is imported",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        if __name__ == "__main__":
            pass
        else:
            x = tf.ones([2])
            tf.config.experimental.set_memory_growth(gpus[0], True)
        """, 7,
    ),
    (
        "devices_early", "settings that name variables",
        """
        import tensorflow as tf
        print(tf.test.is_gpu_available())
        def limit(gpu):
            tf.config.set_logical_device_configuration(gpu, one)
        size = 2048
        one = [tf.config.LogicalDeviceConfiguration(memory_limit=size)]
        gpus = tf.config.list_physical_devices("GPU")
        shown, hidden = gpus[:1], gpus[1:]
        tf.config.set_visible_devices(gpus[1:], "GPU")
        tf.config.set_visible_devices(shown, "GPU")
        limit(gpus[0])
        """, 4, 9, 10,
    ),
    (
        "devices_early", "settings first",
        """
        import tensorflow as tf
        from keras import layers
        inputs = layers.Input((3,))
        dense = layers.Dense(3)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        print(tf.config.list_logical_devices("GPU"))
        x = tf.constant(1.0)
        """,
    ),
    (
        "devices_early", "a tensor in a function called later",
        """
        import tensorflow as tf
        def build():
            return tf.constant(1.0)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        build()
        """,
    ),
    (
        "devices_early", "graph mode makes a graph only",
        """
        import tensorflow as tf
        tf.compat.v1.disable_eager_execution()
        x = tf.constant(1.0)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        """,
    ),
    (
        "devices_early", "gpuconf guards it",
        """
        import gpuconf.auto
        import tensorflow as tf
        print(tf.test.is_gpu_available())
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        """,
    ),
    (
        "devices_early", "numpy's zeros, a lambda, a generator",
        """
        import numpy as np
        import tensorflow as tf
        x = np.zeros(3)
        make = lambda: tf.zeros([3])
        def batches():
            yield tf.zeros([3])
        source = batches()
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        """,
    ),
)  # fmt: skip
