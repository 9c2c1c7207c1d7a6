"""``session_evaluate`` in graphs of TensorFlow 1, fed in batches; run by ``test_in_tensorflow``."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import tensorflow as tf
from tensorflow.compat import v1

from gpuconf.batching import forget, session_evaluate
from gpuconf.errors import UsageError

MESSAGE = (
    "OOM when allocating tensor with shape[64,4] and type float on /job:localhost/replica:0/"
    "task:0/device:GPU:0 by allocator GPU_0_bfc"
)
RNG = np.random.default_rng(1)
X, Y = RNG.random((1001, 4), dtype=np.float32), RNG.integers(0, 3, 1001)


class Network:
    """A graph whose first operation refuses more samples than ``most``, and counts the refusals."""

    def __init__(self, most: int) -> None:
        self.most, self.refusals = most, 0
        self.graph = v1.Graph()
        with self.graph.as_default():
            self.x = v1.placeholder(tf.float32, [None, 4], "x")
            self.y = v1.placeholder(tf.int64, [None], "y")
            self.keep = v1.placeholder(tf.float32, [], "keep")
            weights = v1.get_variable("weights", [4, 3])
            logits = tf.matmul(self.x, weights) * self.keep
            self.predicted = tf.argmax(logits, 1)
            right = tf.cast(tf.equal(self.predicted, self.y), tf.float32)
            self.accuracy, self.hits = tf.reduce_mean(right), tf.reduce_sum(right)
            self.metric, update = v1.metrics.accuracy(self.y, self.predicted)
            # What refuses comes after the metric has counted.
            with tf.control_dependencies([update]):
                self.update = tf.identity(update, "counted") + 0 * self.refused()
            self.session = v1.Session()
            self.session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])

    def refused(self) -> Any:
        """Zero, or out of memory."""

        def check(count: Any) -> Any:
            if count > self.most:
                self.refusals += 1
                raise tf.errors.ResourceExhaustedError(None, None, MESSAGE)
            return np.float32(0)

        return tf.numpy_function(check, [tf.shape(self.x)[0]], tf.float32)

    def feed(self) -> dict[Any, Any]:
        """Samples, labels, and a scalar."""
        return {self.x: X, self.y: Y, self.keep: 1.0}


def check_as_one_run() -> None:
    """Rows are joined, means weighted with the last partial batch, sums added, all as one run."""
    net = Network(5000)
    wanted = net.session.run([net.predicted, net.accuracy, net.hits], net.feed())
    fetch = {"predicted": net.predicted, "accuracy": net.accuracy, "hits": net.hits}
    found = session_evaluate(
        net.session, fetch, net.feed(), batch_size=100, reduce={net.hits: "sum"}
    )
    np.testing.assert_array_equal(found["predicted"], wanted[0])
    assert abs(found["accuracy"] - wanted[1]) < 1e-6
    assert found["hits"] == wanted[2]


def check_metrics_count_once() -> None:
    """A batch that fails after the metric has counted it is not counted twice."""
    net = Network(60)
    found = session_evaluate(net.session, net.update, net.feed(), batch_size=200, reduce="last")
    right = net.session.run(net.hits, net.feed())
    assert abs(found - right / len(X)) < 1e-6
    assert abs(net.session.run(net.metric) - right / len(X)) < 1e-6
    assert net.refusals == 2  # 200, 100, then 50
    forget()


def check_names_operations_and_a_scalar() -> None:
    """Names are taken for tensors, operations give None, a nest keeps its shape."""
    net = Network(5000)
    operation = net.graph.get_operation_by_name("ArgMax")
    feed = {"x:0": X, "y:0": list(Y), "keep:0": 1.0}
    rows, nothing = session_evaluate(net.session, ("ArgMax:0", operation), feed, progress=True)
    assert rows.shape == (1001,)
    assert nothing is None


def check_mistakes() -> None:
    """Lengths that differ, nothing to cut, an unknown way to reduce: one error each."""
    net = Network(5000)
    for feed, options, words in (
        ({net.x: X, net.y: Y[:9], net.keep: 1.0}, {}, "x:0 1001, y:0 9"),
        ({net.keep: 1.0}, {}, "nothing can be split"),
        (net.feed(), {"reduce": "median"}, "median"),
        (net.feed(), {"reduce": {net.x: "sum"}}, "keys from Mean:0"),
        (net.feed(), {"batch_size": 0}, "batch_size=0"),
        (net.feed(), {"max_retries": -1}, "max_retries=-1"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            session_evaluate(net.session, net.accuracy, feed, **options)
        assert caught.value.hint, words
    with pytest.raises(UsageError, match="not NoneType") as caught:
        session_evaluate(None, net.accuracy, net.feed())
    assert "gpuconf.evaluate" in str(caught.value.hint)


def check_what_can_be_fed() -> None:
    """Lists, doubles, frames, sparse matrices, by tensor or by name; a sparse placeholder whole."""
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        ids = v1.placeholder(tf.int32, [None])
        table = v1.sparse_placeholder(tf.float32, [None, 4])
        rows = x + tf.cast(ids, tf.float32)[:, None] + v1.sparse_reduce_sum(table)
        with v1.Session(graph=graph) as session:
            ones = v1.SparseTensorValue([[0, 0], [4, 3]], [1.0, 1.0], [5, 4])
            values = X[:50].astype("float64")
            kinds = (values, values.tolist(), pd.DataFrame(values), scipy.sparse.csr_matrix(values))
            for key, given in zip((x, "x:0", "x", x), kinds, strict=True):
                feed = {key: given, ids: list(range(50)), table: ones}
                found = session_evaluate(session, rows, feed, batch_size=16)
                wanted = X[:50] + np.arange(50)[:, None] + 2.0
                np.testing.assert_allclose(found, wanted, rtol=1e-6)


def check_a_mean_of_whole_numbers_is_said() -> None:
    """A count must be summed, and nobody sees from the mean that it was not."""
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4])
        count = v1.count_nonzero(x > 0.5)
        with v1.Session(graph=graph) as session:
            for reduce, lines in (("mean", 1), ({count.name: "sum"}, 0), ("last", 0)):
                shown = io.StringIO()
                with contextlib.redirect_stderr(shown):
                    found = session_evaluate(session, count, {x: X}, 300, reduce=reduce)
                assert shown.getvalue().count(f'reduce={{"{count.name}": "sum"}}') == lines
                assert (found == np.count_nonzero(X > 0.5)) == isinstance(reduce, dict)


def check_whole() -> None:
    """What is said to be whole is not cut, though its first dimension is open."""
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 2])
        scale = v1.placeholder(tf.float32, [None])
        scaled = x * scale
        with v1.Session(graph=graph) as session:
            feed = {x: X[:, :2], scale: [2.0, 3.0]}
            found = session_evaluate(session, scaled, feed, batch_size=300, whole=scale)
    np.testing.assert_array_equal(found, X[:, :2] * np.array([2, 3], np.float32))


def check_not_even_one() -> None:
    """TensorFlow's own error is raised where one sample does not fit."""
    net = Network(0)
    # An error of numpy_function comes back as an UnknownError.
    with pytest.raises(tf.errors.OpError, match="OOM when allocating"):
        session_evaluate(net.session, net.update, net.feed(), batch_size=2)
    assert net.refusals == 2
