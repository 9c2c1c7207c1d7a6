"""Graph-mode Keras as people wrote it: what session does Keras hold, and what may it take?"""

import json

import tensorflow as tf

backend = tf.compat.v1.keras.backend
session = backend.get_session()
options = session._config.gpu_options
print(
    "RESULT",
    json.dumps(
        {
            "eager": tf.executing_eagerly(),
            "fraction": options.per_process_gpu_memory_fraction,
            "allow_growth": options.allow_growth,
            "limits": [
                d.memory_limit_bytes >> 20 for d in session.list_devices() if d.device_type == "GPU"
            ],
        }
    ),
)
