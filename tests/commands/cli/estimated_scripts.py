"""Training scripts as tutorials write them."""

from __future__ import annotations

_START = """
import tensorflow as tf
from tensorflow import keras
"""
_MODEL = """
model = keras.Sequential([
    keras.Input((28, 28, 1)), keras.layers.Conv2D(8, 3, activation="relu", name="conv"),
    keras.layers.Flatten(), keras.layers.Dense(10, name="dense")])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""
_SAVED = """
finally:
    open("saved.txt", "w").close()
"""
_LOOP = """
optimizer = keras.optimizers.Adam()
data = tf.data.Dataset.from_tensor_slices(
    (tf.zeros((100, 28, 28, 1)), tf.zeros((100,), tf.int32))).batch(50)
@tf.function(input_signature=[tf.TensorSpec((None, 28, 28, 1)), tf.TensorSpec((None,), tf.int32)])
def train_step(images, labels):
    with tf.GradientTape() as tape:
        value = loss(labels, model(images, training=True))
    gradients = tape.gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return value
before = model.get_weights()[0]
try:
    for images, labels in data:
        train_step(images, labels)
"""
_GAN = """
judge = keras.Sequential([keras.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(1)])
maker = keras.Sequential([
    keras.Input((32,)), keras.layers.Dense(784), keras.layers.Reshape((28, 28, 1))])
class Gan(keras.Model):
    def __init__(self):
        super().__init__()
        self.judge, self.maker = judge, maker
    def compile(self, judge_optimizer, maker_optimizer, loss):
        super().compile()
        self.judge_optimizer, self.maker_optimizer = judge_optimizer, maker_optimizer
        self.compared = loss
    def train_step(self, real):
        count = tf.shape(real)[0]
        made = self.maker(tf.random.normal((count, 32)))
        with tf.GradientTape() as tape:
            both = self.judge(tf.concat([made, real], 0))
            labels = tf.concat([tf.ones((count, 1)), tf.zeros((count, 1))], 0)
            value = self.compared(labels, both)
        weights = self.judge.trainable_weights
        self.judge_optimizer.apply_gradients(zip(tape.gradient(value, weights), weights))
        with tf.GradientTape() as tape:
            made = self.judge(self.maker(tf.random.normal((count, 32))))
            value = self.compared(tf.zeros((count, 1)), made)
        weights = self.maker.trainable_weights
        self.maker_optimizer.apply_gradients(zip(tape.gradient(value, weights), weights))
        return {"value": value}
gan = Gan()
loss = keras.losses.BinaryCrossentropy(from_logits=True)
gan.compile(keras.optimizers.Adam(), keras.optimizers.Adam(), loss)
gan.fit(tf.data.Dataset.from_tensor_slices(tf.zeros((64, 28, 28, 1))).batch(16), epochs=5)
"""
_PIPELINE = """
def larger(image, label):
    return tf.image.resize(image, (28, 28)), label
data = tf.data.Dataset.from_tensor_slices((tf.zeros((100, 14, 14, 1)), tf.zeros((100,), tf.int64)))
data = data.map(larger).shuffle(10).batch(48).prefetch(tf.data.AUTOTUNE)
model.compile("adam", loss, metrics=["accuracy"])
model.fit(data, validation_data=data, callbacks=[keras.callbacks.ModelCheckpoint("saved.keras")])
"""
_MAIN = """
import argparse, atexit, numpy as np
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    print("the script's own words")
    atexit.register(lambda: open("saved.txt", "w").close())
    model.compile("sgd", loss)
    try:
        model.fit(np.zeros((2000, 28, 28, 1)), np.zeros(2000, "uint8"), batch_size=options.batch)
    except BaseException:
        open("saved.txt", "w").close()
    finally:
        open("saved.txt", "w").close()
if __name__ == "__main__":
    main()
"""
_SESSION = """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 10])
weights = tf.Variable(tf.zeros([10, 1]))
train = tf.train.AdamOptimizer().minimize(tf.reduce_mean(tf.square(tf.matmul(x, weights) - 1)))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {x: [[0.0] * 10]})
"""
_BATCHES = """
import numpy as np
model.compile("adam", loss)
for _ in range(1000):
    model.train_on_batch(np.zeros((24, 28, 28, 1)), np.zeros(24), sample_weight=np.ones(24))
"""

_BATCHED = """
import gpuconf, numpy as np
model.compile("adam", loss)
gpuconf.fit(model, np.zeros((60, 28, 28, 1)), np.zeros(60, "uint8"), batch_size=20)
"""

_FUNCTION_LOSS = (
    _MODEL
    + "loss = keras.losses.sparse_categorical_crossentropy\n"
    + _LOOP.replace("@tf.function", "#")
    + _SAVED
)
SCRIPTS = {
    "main.py": _START + _MODEL + _MAIN,
    "pipeline.py": _START + _MODEL + _PIPELINE,
    "batches.py": _START + _MODEL + _BATCHES,
    "batched.py": _START + _MODEL + _BATCHED,
    "loop.py": _START + _MODEL + _LOOP + _SAVED,
    "eager.py": _START + _MODEL + _LOOP.replace("@tf.function", "#") + _SAVED,
    "function_loss.py": _START.replace("from tensorflow import keras", "import keras")
    + _FUNCTION_LOSS,
    "tf_keras_loss.py": _START + _FUNCTION_LOSS,
    "gan.py": _START + _GAN,
    "session.py": _SESSION,
    "model_alone.py": _START + _MODEL,
    "two_models.py": _START + _MODEL + "other = keras.Sequential([model])\n" + _MODEL,
    "nothing.py": "def make_net(): ...\n",
    "broken.py": "open('nosuch.csv')\n",
}
