"""What the tests' programs start with: TensorFlow is told that others are absent, nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.processes import run_python, write_package

_ASK = """
def found():
    there = []
    for name in ("jax", "sklearn", "colorsys"):
        try:
            __import__(name)
        except ImportError as error:
            assert str(error) == f"No module named {name!r}", error
        else:
            there.append(name)
    return there
"""
_STANDINS = {
    "jax.py": "",
    "sklearn.py": "",
    "tensorflow/__init__.py": "from .python import lite\n",
    "tensorflow/python/__init__.py": "",
    "tensorflow/python/lite.py": f"{_ASK}there = found()\n",
}
_PROGRAM = """
import importlib.util, json, sys
FIRST
import tensorflow
ASK
assert all(map(importlib.util.find_spec, ("jax", "sklearn")))
print(json.dumps([tensorflow.python.lite.there, found()]))
"""
_ALL = '["jax", "sklearn", "colorsys"]'


@pytest.mark.parametrize(
    ("first", "environ", "there"),
    [
        ("", {}, '["colorsys"]'),
        (
            "from gpuconf.session.import_hook import on_import; on_import('jax', print)",
            {},
            '["colorsys"]',
        ),
        ("import jax, sklearn", {}, _ALL),
        ("", {"KERAS_BACKEND": "jax"}, _ALL),
        ("", {"WHOLE_TENSORFLOW": "1"}, _ALL),
    ],
    ids=["as it is", "with our hooks", "imported before", "Keras on JAX", "spared"],
)
def test_what_tensorflow_may_import(
    tmp_path: Path, first: str, environ: dict[str, str], there: str
) -> None:
    """Not what it can do without; the program itself gets everything, before and after it."""
    write_package(tmp_path, _STANDINS)
    program = _PROGRAM.replace("FIRST", first).replace("ASK", _ASK)
    told = run_python(program, tmp_path, environ=environ)
    assert told.splitlines()[-1] == f"[{there}, {_ALL}]"


_COLLECTED = """
import gc
assert gc.isenabled()
import tensorflow
assert not tensorflow.enabled
assert gc.isenabled()
assert "exec_module" not in vars(tensorflow.__loader__)
assert gc.get_freeze_count() > 0

class Kept: pass
kept, gone = Kept(), []
import weakref
weakref.finalize(kept, gone.append, 1)
kept.own = kept
del kept
gc.collect()
assert gone == [1]
try:
    import jax
except ZeroDivisionError:
    assert gc.isenabled()
    gc.disable()
import keras
assert not keras.enabled and not gc.isenabled()
"""


def test_nothing_is_collected_while_a_framework_is_imported(tmp_path: Path) -> None:
    """Collections go on afterwards, after a failed import too, unless the program switched them
    off itself; what the program makes is collected, and the loader is Python's own."""
    standin = "import gc\nenabled = gc.isenabled()\n"
    packages = {f"{name}.py": standin for name in ("tensorflow", "keras")}
    write_package(tmp_path, {**packages, "jax.py": "1 / 0\n"})
    run_python(_COLLECTED, tmp_path)
