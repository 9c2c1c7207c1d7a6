"""What is left where a Keras or TensorFlow lacks a private name: less, or one clear error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpuconf.errors import BackendError, UsageError
from gpuconf.support.keras_api import compiled, graphs, layers, symbolic, training, variables
from gpuconf.support.keras_api.families import KerasFamily
from gpuconf.support.keras_api.restoring import restored

INNER = SimpleNamespace(name="inner", weights=[1])
OUTER = SimpleNamespace(name="outer", layers=[INNER], weights=[1])


def test_layers_are_those_that_models_name() -> None:
    """Without Keras's own list layers are found at any depth by what each model names."""
    model = SimpleNamespace(layers=[OUTER, INNER])
    assert layers.layers_of(model) == [OUTER, INNER, INNER]
    assert layers.layers_of(model, include_self=True)[0] is model
    assert layers.leaves_with_weights(model) == [INNER, INNER]


def test_a_call_without_a_list_of_nodes() -> None:
    """A model that notes no calls is called anyway."""
    assert symbolic.called(lambda symbols: symbols + 1, 1) == 2


def test_a_model_of_which_nothing_is_noted() -> None:
    """Inputs, outputs and shape are unknown, not an error; the user is then requested them."""
    model = SimpleNamespace()
    assert symbolic.inputs_of(model) is None
    assert symbolic.outputs_of(model) is None
    assert symbolic.built_shape(model) is None
    assert compiled.compiled_parts(model) == [None] * 4
    assert compiled.trackers_of(model) == []


@pytest.mark.parametrize(
    "keras",
    [
        SimpleNamespace(),
        SimpleNamespace(
            RematScope=lambda mode: pytest.MonkeyPatch.context(),  # noqa: ARG005  # a context
            layers=SimpleNamespace(Identity=SimpleNamespace),
        ),
    ],
    ids=["no scope", "another attribute"],
)
def test_no_recomputing(keras: Any) -> None:
    """A Keras without rematerialization, or with another way to it, is one clear error."""
    with pytest.raises(UsageError, match="this version of Keras"):
        layers.recomputed([INNER], KerasFamily(keras, "keras", True)).__enter__()


def test_functions_of_a_graph_that_cannot_be_found() -> None:
    """A graph without the private look-up raises BackendError; one without the name KeyError."""
    with pytest.raises(BackendError, match="gpuconf does not know how"):
        graphs.function_graph(SimpleNamespace(), "f")
    empty = SimpleNamespace(_get_function=lambda _: None, outer_graph=None)
    with pytest.raises(KeyError):
        graphs.function_graph(empty, "f")


def test_tracing_without_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TensorFlow that traces graphs in another way is one clear error."""
    monkeypatch.setitem(sys.modules, "tensorflow.python.framework.func_graph", None)
    with pytest.raises(BackendError, match="unknown to gpuconf"):
        graphs.traced("step", lambda data: data, None)


def test_a_keras_of_other_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of modules that are not there are none; those that are there are found."""
    assert training.optimizer_classes("no_keras") == []
    assert training.trainer_classes("no_keras") == []
    module = ModuleType("no_keras.src.optimizers.optimizer")
    own = type("Adam", (), {"__module__": module.__name__})
    vars(module).update(Adam=own, Other=int)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert training.optimizer_classes("no_keras") == [own]


@pytest.mark.parametrize("make", [list, tuple, lambda each: lambda: each])
def test_variables_of_any_optimizer(make: Callable[[list[int]], Any]) -> None:
    """A list, or a method that gives one."""
    optimizer = SimpleNamespace(variables=make([1, 2]))
    assert variables.optimizer_variables(optimizer) == [1, 2]
    assert variables.optimizer_variables(None) == []


def test_attributes_and_lists_are_put_back() -> None:
    """What is set on a model, and what its lists hold, is as before, without any private name."""
    held = [1]
    model = SimpleNamespace(layers=[], held=held)
    with restored(model):
        model.held.append(2)
        model.new = True
    assert vars(model) == {"layers": [], "held": [1]}
    assert model.held is held
