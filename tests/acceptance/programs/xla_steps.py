"""Compile a training step of small models with XLA, then run it: a line of JSON for each.

Runs in any TensorFlow from 2.15 on, without gpuconf.  The arguments are names of models; the files
that XLA writes are looked for in ``XLA_DUMP``.
"""

import glob
import json
import os
import sys

import numpy as np
import tensorflow as tf

IS_KERAS_2 = tf.__version__.startswith("2.15.")
if IS_KERAS_2:
    keras = tf.keras
else:
    import keras
layers = keras.layers
# The perceptron has the larger batch: its block would fit into a hole that building it has left.
BATCHES, STEPS = {"mlp": 2048}, 3


def mlp():
    return keras.Sequential(
        [keras.Input((784,)), *(layers.Dense(512, activation="relu") for _ in range(2)),
         layers.Dropout(0.2), layers.Dense(10)]
    )  # fmt: skip


def cnn():
    return keras.Sequential(
        [keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
         layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(),
         layers.Dropout(0.5), layers.Dense(10)]
    )  # fmt: skip


def resnet():
    given = keras.Input((32, 32, 3))
    found = layers.Conv2D(32, 3, padding="same")(given)
    for _ in range(3):
        branch = found
        for _ in range(2):
            branch = layers.ReLU()(layers.BatchNormalization()(branch))
            branch = layers.Conv2D(32, 3, padding="same")(branch)
        found = layers.Add()([found, branch])
    return keras.Model(given, layers.Dense(10)(layers.GlobalAveragePooling2D()(found)))


def transformer():
    given = keras.Input((64,), dtype="int32")
    found = layers.Embedding(2000, 128)(given)
    for _ in range(2):
        attended = layers.MultiHeadAttention(8, 16)(found, found)
        found = layers.LayerNormalization()(layers.Add()([found, attended]))
        inner = layers.Dense(128)(layers.Dense(512, activation="gelu")(found))
        found = layers.LayerNormalization()(layers.Add()([found, inner]))
    return keras.Model(given, layers.Dense(10)(layers.GlobalAveragePooling1D()(found)))


def recurrent():
    return keras.Sequential([keras.Input((20, 32)), layers.LSTM(64), layers.Dense(10)])


MODELS = {each.__name__: each for each in (mlp, cnn, resnet, transformer, recurrent)}


def compiled(make, jit):
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], **jit)
    return model


def batch_of(model, size):
    kind = tf.as_dtype(model.inputs[0].dtype).as_numpy_dtype
    inputs = np.zeros((size, *model.input_shape[1:]), kind)
    return inputs, np.zeros((size,), "int32")


def build(model, data):
    """Make the state of optimizer and metrics, which a function that XLA compiles may not make."""
    if not IS_KERAS_2:
        model._symbolic_build(data_batch=data)
        return
    model.optimizer.build(model.trainable_variables)
    model.compiled_loss.build(tf.zeros((len(data[1]), 10)))
    model.compiled_metrics.build(tf.zeros((len(data[1]), 10)), tf.constant(data[1]))


def assignments():
    return set(glob.glob(os.path.join(os.environ["XLA_DUMP"], "*buffer-assignment.txt")))


def compile_step(make):
    """The files that XLA wrote for the step; nothing of it runs."""
    model = compiled(make, {"jit_compile": True})
    data = batch_of(model, BATCHES.get(make.__name__, 64))
    build(model, data)
    before = assignments()
    step = tf.function(model.train_step, jit_compile=True)
    text = step.experimental_get_compiler_ir(tuple(map(tf.constant, data)))(stage="optimized_hlo")
    assert "ENTRY" in text
    return {"assignments": sorted(assignments() - before)}


def run_steps(make):
    """What was in use before the last of a few steps, its peak, and the files XLA wrote."""
    model = compiled(make, {"jit_compile": True})
    data = batch_of(model, BATCHES.get(make.__name__, 64))
    before = assignments()
    for _ in range(STEPS):
        tf.config.experimental.reset_memory_stats("GPU:0")
        in_use = tf.config.experimental.get_memory_info("GPU:0")["current"]
        model.train_on_batch(*data)
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    found = sorted(assignments() - before)
    return {"in_use_bytes": in_use, "peak_bytes": peak, "assignments": found}


def resolve_jit(make):
    """Whether Keras compiles the model where nothing is said."""
    model = compiled(make, {})
    return {"jit": bool(getattr(model, "_jit_compile" if IS_KERAS_2 else "jit_compile"))}


def main():
    for name in sys.argv[1:]:
        todo = (resolve_jit,) if name == "recurrent" else (compile_step, run_steps)
        for each in todo:
            try:
                found = each(MODELS[name])
            except Exception as error:
                found = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
            said = {"version": tf.__version__, "model": name, "what": each.__name__, **found}
            print("FOUND " + json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
