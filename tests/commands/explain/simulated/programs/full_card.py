"""A training step with TensorFlow's defaults, whoever else is on the GPU."""

import tensorflow as tf

embeddings = tf.Variable(tf.random.uniform([100_000, 512]), name="embeddings")
print(embeddings.shape)
