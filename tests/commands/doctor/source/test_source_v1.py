"""Scripts of TensorFlow 1: the lines that are proposed run, and the tables are TensorFlow's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.source import findings_in
from gpuconf.commands.doctor.source.version_1 import GRAPH_NAMES, KERAS_2_NAMES, SESSION_NAMES
from gpuconf.simcard import simulated_card
from tests.programs import warm
from tests.programs.card_clients import STORY
from tests.programs.processes import run

SCRIPT = '''\
# -*- coding: utf-8 -*-
"""A network of 2018."""
from __future__ import division

import numpy as np
import tensorflow as tf

x = tf.placeholder(tf.float32, [None, 28, 28])
y = tf.placeholder(tf.int64, [None])
outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(16), x, dtype=tf.float32)
logits = tf.layers.dense(outputs[:, -1], 10)
losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
loss = tf.reduce_mean(losses)
step = tf.train.AdamOptimizer(1e-2).minimize(loss)
config = tf.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.2
with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    feed = {x: np.ones([8, 28, 28]), y: np.zeros([8])}
    found = [session.run([step, loss], feed)[1] for _ in range(3)]
    print("falls", found[0] > found[-1])
    print("on", session.list_devices()[-1].device_type)
'''
# What follows it in the same process, since a start of TensorFlow is slow.
LIST = """
from tensorflow.python.client import device_lib
from tensorflow.python.keras import backend as private
import keras

def has(module, name):
    try:
        for part in name.rstrip(".").split("."):
            module = getattr(module, part)
    except (AttributeError, ImportError):
        return False
    return True

import tensorflow as tf2
print("limits", [each.memory_limit for each in device_lib.list_local_devices()][1:])
print("missing", [name for name in {old!r} if not has(tf, name)])
print("kept", [name for name in {new!r} if has(tf2, name)])
print("contrib", has(tf, "contrib"), has(tf2, "contrib"))
print("Keras 2", tf.keras.backend.get_session().run(tf.constant(3)))
print("private", private.set_session(None), has(keras.backend, "set_session"))
"""


def fixed(script: str) -> str:
    """The script with the fix for its sessions: our lines on top, TensorFlow's import renewed."""
    (fix,) = [each.fix or "" for each in findings_in(script, "old.py")
              if each.id == "source.v1"]  # fmt: skip
    ours, _, theirs = fix.partition("import os\n")
    below = script.replace("import tensorflow as tf\n", f"import os\n{theirs}\n")
    return below.replace("import numpy as np\n", f"{ours}import numpy as np\n")


@pytest.mark.slow
def test_the_fix_of_a_script_of_2018_runs(bridge: Path, tmp_path: Path) -> None:
    """On the simulated GPU, on its GPU, within the fraction that it requested.

    And in the same process: tf.compat.v1 has every name that is called TensorFlow 1's, tf has none
    of them; cells and initializers of tf.contrib are there; the set_session of
    tensorflow.python.keras is there and does nothing that Keras knows of.
    """
    kept = [*SESSION_NAMES, *GRAPH_NAMES, *KERAS_2_NAMES]
    moved = ["nn.rnn_cell.BasicLSTMCell", "glorot_uniform_initializer"]  # out of tf.contrib
    file = tmp_path / "old.py"
    listing = LIST.format(old=[*kept, *moved], new=kept)
    file.write_text(fixed(SCRIPT) + listing, encoding="utf-8")
    with simulated_card(STORY) as card:
        environ = card.environment({warm.VARIABLE: "1"}, bridge=bridge)
        done = run([sys.executable, str(file)], tmp_path, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stderr[-2000:]
    values = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    assert (values["falls"], values["on"]) == ("True", "GPU")
    assert values["limits"] == f"[{int(0.2 * 11264 * MIB)}]"
    assert (values["missing"], values["kept"]) == ("[]", "[]")
    assert values["contrib"] == "False False"
    assert values["Keras"] == "2 3"
    assert values["private"] == "None False"


WITH_DOCSTRING = '''#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""A network."""
# from 2018
from __future__ import absolute_import
from __future__ import division, print_function

@decorated
def train():
    pass

import keras
'''


def test_a_backend_that_only_computes() -> None:
    """The old name of Keras's backend, imported for its functions, gets the new one."""
    script = "import keras.backend.tensorflow_backend as KTF\nx = KTF.mean(y)\n"
    (fix,) = [each.fix or "" for each in findings_in(script, "a.py") if each.id == "source.v1"]
    assert fix.startswith("from tensorflow.keras import backend as K  # in place of")


FIRST_PLACES = {
    WITH_DOCSTRING: "above old.py:8 (@decorated)",
    '"""A network."""\nimport keras\n': "above old.py:2 (import keras)",
    "# by us\nimport keras\n": "above old.py:2 (import keras)",
    "import keras\n": "as the first line",
}


@pytest.mark.parametrize("script", FIRST_PLACES)
def test_where_a_first_line_may_stand(script: str) -> None:
    """Below the docstring and `from __future__`, which Python wants first."""
    (missing,) = [each for each in findings_in(script, "old.py")
                  if each.id == "source.auto_missing"]  # fmt: skip
    assert f"`import gpuconf.auto` {FIRST_PLACES[script]}, before" in missing.detail[1]
    late = f"{script}import gpuconf.auto\n"
    (found,) = [each for each in findings_in(late, "old.py") if each.id == "source.auto_late"]
    assert found.fix is not None
    assert FIRST_PLACES[script] in found.fix
