"""Scripts about growth, limits, sessions and errors."""

from __future__ import annotations

from typing import Any

SETTINGS: tuple[tuple[Any, ...], ...] = (
    ("growth_value", "1", 'import os\nos.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"\n', 2),
    (
        "growth_value", "True",
        'from os import environ\nenviron["TF_FORCE_GPU_ALLOW_GROWTH"] = str(True)\n', 2,
    ),
    (
        "growth_value", "through a variable",
        'import os\nNO = "0"\nos.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", NO)\n', 3,
    ),
    (
        "growth_value", "right words, and unknown ones",
        """
        import os, sys
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = sys.argv[1]
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
        """,
    ),
    (
        "growth_one_gpu", "gpus[0]",
        """
        import tensorflow as tf
        gpus = tf.config.experimental.list_physical_devices("GPU")
        if gpus:
            tf.config.experimental.set_memory_growth(gpus[0], True)
        """, 4,
    ),
    (
        "growth_one_gpu", "listed and indexed at once, enable by name",
        """
        from tensorflow import config
        gpu = config.list_physical_devices("GPU")[0]
        config.experimental.set_memory_growth(gpu, enable=True)
        """, 3,
    ),
    (
        "growth_one_gpu", "loops and comprehensions",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        for i in range(len(gpus)):
            tf.config.experimental.set_memory_growth(gpus[i], True)
        [tf.config.experimental.set_memory_growth(gpu, True) for gpu in gpus]
        def grow(device):
            tf.config.experimental.set_memory_growth(device, True)
        """,
    ),
    (
        "growth_one_gpu", "each by its number",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.experimental.set_memory_growth(gpus[0], True)
        tf.config.experimental.set_memory_growth(gpus[1], True)
        """,
    ),
    (
        "growth_one_gpu", "one is visible by tf.config",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices(gpus[0], "GPU")
        tf.config.experimental.set_memory_growth(gpus[0], True)
        """,
    ),
    (
        "growth_one_gpu", "one is visible by the variable",
        """
        import os, sys
        os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.experimental.set_memory_growth(gpus[0], True)
        """,
    ),
    (
        "growth_one_gpu", "it asked for the number",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        if len(gpus) == 1:
            tf.config.experimental.set_memory_growth(gpus[0], True)
        """,
    ),
    (
        "growth_one_gpu", "off, and under gpuconf",
        """
        import gpuconf.auto
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.experimental.set_memory_growth(gpus[0], False)
        tf.config.experimental.set_memory_growth(gpus[0], True)
        """,
    ),
    (
        "growth_and_limit", "growth after the limit",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        two = [tf.config.LogicalDeviceConfiguration(memory_limit=2048)]
        tf.config.set_logical_device_configuration(gpus[0], two)
        tf.config.experimental.set_memory_growth(gpus[0], True)
        """, 5,
    ),
    (
        "growth_and_limit", "a limit after growth for all, by the old name",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        tf.config.experimental.set_virtual_device_configuration(
            gpus[0], [tf.config.experimental.VirtualDeviceConfiguration(memory_limit=1024)])
        """, 5,
    ),
    (
        "growth_and_limit", "one or the other, or another GPU",
        """
        import sys
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        two = [tf.config.LogicalDeviceConfiguration(memory_limit=2048)]
        if len(sys.argv) > 1:
            tf.config.set_logical_device_configuration(gpus[0], two)
        else:
            tf.config.experimental.set_memory_growth(gpus[0], True)
        tf.config.set_logical_device_configuration(gpus[1], two)
        """,
    ),
    (
        "growth_and_limit", "growth off",
        """
        import tensorflow as tf
        gpu = tf.config.list_physical_devices("GPU")[0]
        tf.config.experimental.set_memory_growth(gpu, False)
        tf.config.set_logical_device_configuration(
            gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4096)])
        """,
    ),
    (
        "error_swallowed", "TensorFlow's own example",
        """
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        if gpus:
            try:
                for gpu in gpus:
                    tf.config.experimental.set_memory_growth(gpu, True)
            except RuntimeError as e:
                print(e)
        """, 7,
    ),
    (
        "error_swallowed", "bare, and several",
        """
        import logging
        import tensorflow as tf
        gpu = tf.config.list_physical_devices("GPU")[0]
        try:
            tf.config.set_visible_devices(gpu, "GPU")
        except:
            pass
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except (ValueError, IndexError) as error:
            logging.warning("no growth: %s", error)
        """, 6, 10,
    ),
    (
        "error_swallowed", "raised, ended, answered, or another error",
        """
        import sys
        import tensorflow as tf
        gpus = tf.config.list_physical_devices("GPU")
        def grow():
            try:
                tf.config.experimental.set_memory_growth(gpus[0], True)
            except RuntimeError as e:
                print(e)
                raise
        def grow_or_end():
            try:
                tf.config.experimental.set_memory_growth(gpus[0], True)
            except RuntimeError as e:
                sys.exit(e)
        def grows():
            try:
                tf.config.experimental.set_memory_growth(gpus[0], True)
            except RuntimeError as e:
                return False
            return True
        try:
            tf.config.experimental.set_memory_growth(gpus[0], True)
        except IndexError:
            print("no GPU")
        try:
            print(len(gpus))
        except RuntimeError:
            pass
        """,
    ),
    (
        "v1_session", "tf.Session",
        """
        import tensorflow as tf
        config = tf.ConfigProto()
        config.gpu_options.per_process_gpu_memory_fraction = 0.4
        session = tf.Session(config=config)
        """, 2, 4,
    ),
    (
        "v1_session", "Keras's",
        """
        from keras import backend as K
        from tensorflow.compat.v1 import Session
        K.set_session(Session())
        """, 3,
    ),
    (
        "v1_session", "a module that has gone",
        "from keras.backend.tensorflow_backend import set_session\n", 1,
    ),
    (
        "v1_session", "a module that has gone, by its name",
        """
        from keras import backend as K
        print(K.tensorflow_backend._get_available_gpus())
        K.tensorflow_backend.clear_session()
        """, 2, 3,
    ),
    (
        "v1_session", "compat.v1 under Keras 3",
        "import tensorflow as tf\nsession = tf.compat.v1.keras.backend.get_session()\n", 2,
    ),
    (
        "v1_session", "compat.v1 sessions work",
        """
        import tensorflow.compat.v1 as tf
        config = tf.ConfigProto()
        config.gpu_options.allow_growth = True
        with tf.Session(config=config) as session:
            pass
        """,
    ),
    (
        "v1_session", "another way is ready",
        """
        try:
            import tensorflow.compat.v1 as tf
        except ImportError:
            import tensorflow as tf
        session = tf.Session()
        """,
    ),
    (
        "v1_session", "the version is asked for",
        """
        import tensorflow as tf
        if tf.__version__.startswith("1."):
            session = tf.Session()
        else:
            session = tf.compat.v1.Session()
        try:
            other = tf.Session()
        except AttributeError:
            other = None
        def pin_gpu_tensorflow1():
            return tf.ConfigProto()
        """,
    ),
    (
        "v1_session", "a parameter called tf",
        "import tensorflow as tf\ndef pin(tf):\n    return tf.Session()\n",
    ),
    (
        "v1_session", "Keras 2 is asked for",
        """
        import os
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
        import tensorflow as tf
        tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session())
        """,
    ),
    (
        "v1_session", "a graph",
        """
        import tensorflow as tf
        x = tf.placeholder(tf.float32)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
        """, 2, 3, 4,
    ),
    (
        "v1_session", "flags and a monitored session",
        """
        import tensorflow as tf
        flags = tf.app.flags
        flags.DEFINE_integer("steps", 3, "")
        with tf.train.MonitoredTrainingSession() as session:
            pass
        """, 3, 4,
    ),
    (
        "v1_session", "TensorFlow's private Keras",
        """
        import tensorflow as tf
        from tensorflow.python.keras import backend as K
        K.set_session(tf.compat.v1.Session())
        """, 3,
    ),
    (
        "v1_session", "the session that Keras has",
        "from keras import backend as K\nvalues = K.get_session().run([])\n", 2,
    ),
    (
        "v1_session", "layers of Keras 2",
        "import tensorflow.compat.v1 as tf\ny = tf.layers.dense(x, 4)\n", 2,
    ),
    (
        "v1_session", "layers of Keras 2, which is asked for",
        """
        import os
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
        import tensorflow.compat.v1 as tf
        y = tf.layers.dense(x, 4)
        """,
    ),
    (
        "v1_session", "names of TensorFlow 2 that look alike",
        """
        import tensorflow as tf
        tf.summary.create_file_writer("logs")
        tf.random.normal([2])
        tf.nn.softmax(x)
        tf.train.Checkpoint()
        """,
    ),
    (
        "v1_gone", "contrib and examples",
        """
        import tensorflow as tf
        from tensorflow.contrib import rnn
        import tensorflow.contrib.slim as slim
        from tensorflow.examples.tutorials.mnist import input_data
        cell = rnn.BasicLSTMCell(8)
        y = tf.contrib.seq2seq.BasicDecoder(cell)
        init = tf.contrib.layers.xavier_initializer
        """, 2, 3, 4, 6, 7,
    ),
    (
        "v1_gone", "another way is ready",
        """
        try:
            from tensorflow.contrib import rnn
        except ImportError:
            rnn = None
        """,
    ),
)  # fmt: skip
