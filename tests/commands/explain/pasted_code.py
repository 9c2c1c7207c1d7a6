"""Runs what people are told to paste, in one TensorFlow on the CPU, with data that are small."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.programs.processes import run_python

_ON_THE_CPU = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
_PROGRAM = '''
import ast
import json
import warnings
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

# Keras says so of every data set given to fit().
warnings.filterwarnings("ignore", "`shuffle=True` was passed")
rng = np.random.default_rng(1)
x = rng.random((40, 8, 8, 3), dtype="float32")
y = rng.integers(0, 2, 40)
np.save("x.npy", x)
for number in range(6):
    file = Path("images", f"class{number % 2}", f"{number}.png")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(tf.io.encode_png((x[number] * 255).astype("uint8")).numpy())


def script():
    """What a paste finds in the user's script, made anew."""
    model = keras.Sequential([
        keras.Input((None, None, 3)), keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(2, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    files = sorted(map(str, Path("images").glob("*/*.png")))
    return {
        "x": x, "y": y, "x_train": x, "y_train": y, "x_test": x, "y_test": y, "np": np, "tf": tf,
        "keras": keras, "model": model, "batch_size": 32, "queries": x, "pieces": 2, "results": [],
        "compute": lambda rows: rows.sum((1, 2, 3)),
        "images": list(x), "paths": files, "labels": [int("class1" in each) for each in files],
    }


def graph(session):
    """The same in a script that builds a graph, as with TensorFlow 1."""
    images = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 3])
    tensors = tf.reduce_sum(images, axis=[1, 2, 3])
    return {
        "x": x, "x_test": x, "images": images, "tensors": tensors, "feed": {images: x}, "tf": tf,
        "session": session,
    }


def value_of(paste, known):
    """What the last line gives or binds, after all that stands before was run."""
    tree = ast.parse(paste)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "<paste>", "exec"), known)
        return known[last.targets[0].id] if isinstance(last, ast.Assign) else None
    exec(compile(ast.Module(tree.body[:-1], []), "<paste>", "exec"), known)
    return eval(compile(ast.Expression(last.value), "<paste>", "eval"), known)


def shown(value):
    """The kind of a value, with its shape, or that of the first batch of a data set."""
    if isinstance(value, keras.callbacks.History):
        return f"History of {value.params['steps']} steps"
    if isinstance(value, tf.data.Dataset):
        return f"Dataset {[list(each.shape) for each in next(iter(value))]}"
    return f"{type(value).__name__} {list(np.shape(value))}"


found = {}
for paste in json.loads(Path("pastes.json").read_text("utf-8")):
    if "session" in paste:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            found[paste] = shown(value_of(paste, graph(session)))
    else:
        found[paste] = shown(value_of(paste, script()))
print("\\n" + json.dumps(found))
'''


def values_of(pastes: Sequence[str], folder: Path) -> dict[str, str]:
    """Each paste, and the kind and shape of what its last line gives; one that fails, fails."""
    (folder / "pastes.json").write_text(json.dumps(list(dict.fromkeys(pastes))), "utf-8")
    out = run_python(_PROGRAM, folder, environ=_ON_THE_CPU, timeout_s=300)
    found: dict[str, str] = json.loads(out.splitlines()[-1])
    return found
