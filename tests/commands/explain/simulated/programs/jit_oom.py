"""A function compiled with XLA whose product does not fit."""

import tensorflow as tf


@tf.function(jit_compile=True)
def outer(column, row):
    """The table of all products, 1 GiB."""
    return tf.matmul(column, row) * 2.0


table = outer(tf.ones([16384, 1]), tf.ones([1, 16384]))
print(table.shape)
