"""Models loaded as the command line names them: by Keras 2 and 3, without their weights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.programs import warm
from tests.programs.processes import run_python, write_package

pytestmark = pytest.mark.slow

WARM = {warm.VARIABLE: "1"}

# Saves models of both Kerases, as users do, and one too large for any test, without weights.
SAVE = """
import json, os, warnings, zipfile
warnings.simplefilter("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3")
import importlib, numpy as np, tensorflow as tf
from gpuconf.commands.estimate.tensorflow.abstract_variables import abstract_variables

def small(keras):
    shared = keras.layers.Dense(8, name="shared")
    inputs = keras.Input((8,))
    inner = keras.Sequential([keras.Input((8,)), keras.layers.BatchNormalization()], name="inner")
    model = keras.Model(inputs, keras.layers.Dense(2)(inner(shared(shared(inputs)))))
    return model

for name in ("keras", "tf_keras"):
    keras = importlib.import_module(name)
    class Strange(keras.layers.Layer):
        def call(self, x):
            return x
    def strange_loss(true, guess):
        return tf.reduce_mean(true - guess)
    plain, compiled, lossy = small(keras), small(keras), small(keras)
    compiled.compile("sgd", "mse", metrics=["accuracy"])
    lossy.compile("adam", strange_loss)
    strange = keras.Sequential([keras.Input((8,)), Strange()])
    strange.compile("sgd", "mse")
    for ending in ("keras", "h5"):
        for kind in ("plain", "compiled", "lossy", "strange"):
            globals()[kind].save(f"{name}_{kind}.{ending}")
import keras
with abstract_variables():
    layers = [keras.Input((2**16,)), keras.layers.Dense(2**16), keras.layers.Dense(2**14)]
    huge = keras.Sequential(layers)
config = keras.saving.serialize_keras_object(huge)
config["compile_config"] = {"optimizer": "adam", "loss": "mse"}
with zipfile.ZipFile("huge.keras", "w") as file:
    file.writestr("config.json", json.dumps(config))
    file.writestr("metadata.json", json.dumps({"keras_version": keras.__version__}))
"""

# What the users write.
MODULE = """
import argparse, sys
import gpuconf.auto
import numpy as np
import tensorflow as tf
keras = tf.keras
argparse.ArgumentParser().parse_args()  # of the command line, as scripts do

def make():
    print("made")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile("adam", "mse")
    return model

def huge():
    return keras.Sequential([keras.Input((2**16,)), keras.layers.Dense(2**16)])

class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(4)
    def call(self, inputs):
        return self.dense(inputs)

def called():
    model = Net()
    model(np.zeros((1, 8), "float32"))
    return model

def initialized():
    model = make()
    model.set_weights([np.ones(each.shape) for each in model.get_weights()])
    return model

class Nets:
    @staticmethod
    def small():
        return make()
    def method(self):
        return make()

ready = make()
number = 3
def needs(units, depth=3): return make()
def nothing(): make()
def pair(): return make(), {}
def layer(): return keras.layers.Dense(3)
def bad(): raise ValueError("of the user")
def trains():
    model = make()
    model.fit(np.zeros((8, 8)), np.zeros((8, 4)), verbose=0)
    return model
async def later(): return make()
"""

LOAD = """
import json, os, resource, sys
from gpuconf.errors import GpuconfError
from gpuconf.commands.estimate.loading import load_model, stay_off_the_gpu
stay_off_the_gpu()
told = []
for target in json.loads({targets!r}):
    try:
        model, notes = load_model(target)
    except GpuconfError as error:
        told.append([type(error).__name__, error.message, error.hint])
    else:
        optimizer = getattr(model, "optimizer", None)
        told.append([type(model).__module__.partition(".")[0], type(model).__name__,
                     model.count_params() if model.built else None,
                     None if optimizer is None else type(optimizer).__name__, list(notes)])
with open("told.json", "w") as file:
    json.dump(told, file)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models are."""
    made = tmp_path_factory.mktemp("models")
    run_python(SAVE, made, environ=WARM, timeout_s=300)
    inner = "from ..sizes import UNITS\nfrom models import make as found\n"
    files = {"models.py": MODULE, "pkg/__init__.py": "", "pkg/sub/__init__.py": ""}
    files |= {"pkg/sizes.py": "UNITS = 5", "pkg/sub/nets.py": f"{inner}def make(): return found()"}
    write_package(made, files)
    return made


def loaded(folder: Path, targets: Sequence[str], **environ: str) -> tuple[list[list[Any]], str]:
    """What became of each, in one process in that folder, and what it printed."""
    code = LOAD.format(targets=json.dumps(targets))
    out = run_python(code, folder, environ={**WARM, **environ}, timeout_s=300)
    told: list[list[Any]] = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    return told, out


SAVED = [(keras, ending) for keras in ("keras", "tf_keras") for ending in ("keras", "h5")]
FUNCTIONS = ("models:make", "models:ready", "models:Nets.small", "models.py:make",
             "pkg.sub.nets:make", "pkg/sub/nets.py:make", "models:Net")  # fmt: skip
HUGE = ("huge.keras", "models:huge")
USING_WEIGHTS = ("models:called", "models:initialized")
BAD_FUNCTIONS = {
    "models:needs": ("UsageError", "without arguments: missing a required argument: 'units'"),
    "models:Nets.method": ("UsageError", "missing a required argument: 'self'"),
    "models:nothing": ("UsageError", "returned None"),
    "models:pair": ("UsageError", "returned a value of type tuple, not a Keras model"),
    "models:layer": ("UsageError", "returned a value of type Dense"),
    "models:number": ("UsageError", "is a value of type int"),
    "models:later": ("UsageError", "returned a value of type coroutine"),
    "models:Nets": ("UsageError", "returned a value of type Nets"),
    "models.py": ("UsageError", "models.py is a program; which of its functions builds"),
    "nosuch": ("UsageError", "'nosuch' is neither an existing file nor module:function"),
    "gs://bucket/a.keras": ("UsageError", "is not on this machine"),
    "models:bad": ("GpuconfError", "ValueError: of the user"),
    "models:trains": ("GpuconfError", "trains, but an estimate runs nothing on data"),
}


class All(NamedTuple):
    """What one process told of all targets, and what it printed."""

    told: Mapping[str, list[Any]]
    out: str

    def of_saved(self, kind: str) -> list[list[Any]]:
        """What it told of the saved models of this kind."""
        return [self.told[f"{keras}_{kind}.{ending}"] for keras, ending in SAVED]


@pytest.fixture(scope="module")
def everything(folder: Path) -> All:
    """All targets in one process, since TensorFlow takes seconds to start."""
    kinds = ("plain", "compiled", "lossy", "strange")
    targets = [f"{keras}_{kind}.{ending}" for kind in kinds for keras, ending in SAVED]
    targets += [*HUGE, *FUNCTIONS, *USING_WEIGHTS, *BAD_FUNCTIONS]
    told, out = loaded(folder, targets)
    return All(dict(zip(targets, told, strict=True)), out)


def test_saved_models(everything: All) -> None:
    """By the Keras that wrote them, compiled as they were, shared layers once; none unbuilt."""
    parameters = 8 * 8 + 8 + 4 * 8 + 8 * 2 + 2
    for kind, optimizer in (("plain", None), ("compiled", "SGD")):
        assert everything.of_saved(kind) == [
            [keras, "Functional", parameters, optimizer, []] for keras, _ in SAVED
        ]


def test_what_is_not_of_keras(everything: All) -> None:
    """A loss leaves the model uncompiled, with a note; without a layer there is no model."""
    for *_, optimizer, notes in everything.of_saved("lossy"):
        assert optimizer is None
        (note,) = notes
        assert "strange_loss" in note
        assert "--loss" in note
    for kind, message, hint in everything.of_saved("strange"):
        assert kind == "UsageError"
        assert "cannot be loaded as a model: " in message
        assert "Strange" in message
        assert hint.endswith("gpuconf estimate my_module:make_model")


def test_weights_take_no_memory(everything: All) -> None:
    """Of a file and of a function that make 16 GiB and more of them."""
    file, function = (everything.told[each] for each in HUGE)
    assert file[2] == 2**32 + 2**16 + 2**30 + 2**14
    assert function[2:] == [2**32 + 2**16, None, []]
    most = int(everything.out.splitlines()[-1])
    assert most < 3000, "MiB of host memory, TensorFlow's own included"


def test_functions(everything: All) -> None:
    """By module, by file, in a package, of a class, a class itself, a model that is there."""
    told = [everything.told[each] for each in FUNCTIONS]
    assert [each[1] for each in told] == ["Sequential"] * 6 + ["Net"]
    assert [each[2:] for each in told[:6]] == [[36, "Adam", []]] * 6
    assert "made" in everything.out
    assert "gpuconf" not in everything.out, "which has nothing to plan for in the user's module"


def test_code_that_uses_its_weights(everything: All) -> None:
    """Runs once more, with real ones, and a note says so."""
    for each in USING_WEIGHTS:
        _, _, parameters, _, notes = everything.told[each]
        assert parameters == 36
        (note,) = notes
        assert "reads the weights that it creates, so they were created" in note


def test_bad_functions(everything: All) -> None:
    """One error each, usage or of the user's own code, with a hint; never a traceback of ours."""
    for target, (kind, said) in BAD_FUNCTIONS.items():
        each = everything.told[target]
        assert each[0] == kind, target
        assert said in each[1], target
        assert each[2], target
        assert "gpuconf/commands/estimate" not in each[1], target
    assert "__main__" in everything.told["models:trains"][2]


def test_another_backend(folder: Path) -> None:
    """Is told before anything is imported, with the command that works."""
    told, _ = loaded(folder, ["models:make"], KERAS_BACKEND="torch")
    assert told[0][0] == "BackendError"
    assert told[0][2].startswith("KERAS_BACKEND=jax gpuconf estimate models:make; or measure it")
