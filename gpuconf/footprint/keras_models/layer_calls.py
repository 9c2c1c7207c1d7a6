"""Which layer an operation or a variable belongs to: noted while the layers are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuconf.footprint.step import OPTIMIZER_STATE, OTHER_STATE, WEIGHTS, Variable
from gpuconf.keras_api.families import KerasFamily
from gpuconf.keras_api.variables import bytes_of, handle_of, optimizer_variables, path_of

_OWN_MODULES = ("keras.", "tf_keras.", "keras_hub.", "keras_nlp.", "keras_cv.")


class Span(NamedTuple):
    """The operations from number ``first`` to before ``end`` were made by the layer at ``path``.

    Spans of inner layers come before those around them.
    """

    first: int
    end: int
    path: str


class LayerCalls:
    """The layers that are called while a graph is traced, as paths: ``encoder/dense_1``.

    A path goes down through models and through layers of the user's own, not into Keras's: an
    attention layer is one row, whatever it is made of.
    """

    def __init__(self, model: Any, family: KerasFamily) -> None:
        self._model = model
        self._family = family
        self._stack: list[Any] = []
        self.spans: list[Span] = []
        self._paths: dict[int, str] = {}
        self.layers: dict[str, Any] = {}

    @contextmanager
    def noted(self, graph_of: Any) -> Iterator[None]:
        """Note calls; ``graph_of()`` is the graph that operations are added to at the moment."""
        layer_class = self._family.keras.layers.Layer
        original = layer_class.__call__

        def call(layer: Any, *arguments: Any, **options: Any) -> Any:
            path = self._enter(layer)
            graph = graph_of()
            first = graph.version
            try:
                return original(layer, *arguments, **options)
            finally:
                self._stack.pop()
                if path is not None and graph_of() is graph:
                    self.spans.append(Span(first, graph.version, path))

        layer_class.__call__ = call
        try:
            yield
        finally:
            layer_class.__call__ = original

    def _enter(self, layer: Any) -> str | None:
        """The path of a layer that has a row of its own."""
        above = self._stack[-1] if self._stack else None
        self._stack.append(layer)
        if layer is self._model or (above is not None and not self._is_opened(above)):
            return None
        if id(layer) not in self._paths:
            names = [each.name for each in self._stack if each is not self._model]
            path = "/".join(names)
            self._paths[id(layer)] = path
            self.layers.setdefault(path, layer)
        return self._paths[id(layer)]

    def _is_opened(self, layer: Any) -> bool:
        """Whether what is inside has rows of its own."""
        if isinstance(layer, self._family.keras.Model):
            return True
        return not type(layer).__module__.startswith(_OWN_MODULES)

    def by_variable(self) -> dict[int, str]:
        """The path for each variable of a layer, by identity."""
        found: dict[int, str] = {}
        for path, layer in sorted(self.layers.items(), key=lambda item: -item[0].count("/")):
            for variable in layer.variables:
                found.setdefault(id(variable), path)
        return found


class KnownVariables(NamedTuple):
    """All variables, each once, and those behind TensorFlow's handles, by the handle's identity."""

    variables: tuple[Variable, ...]
    by_handle: Mapping[int, Variable]


def variables_of(model: Any, layers: Mapping[int, str], *, training: bool) -> KnownVariables:
    """Weights, optimizer state where it is trained, and the rest: metrics, random seeds."""
    weights = list(model.weights)
    state = optimizer_variables(model.optimizer) if training else []
    others = [*model.variables, *(each for metric in model.metrics for each in metric.variables)]
    return _known(weights, state, others, layers)


def variables_used(
    calls: LayerCalls, trained: Iterable[Any], state: Iterable[Any]
) -> KnownVariables:
    """Those of a step of a script's own: of the layers called, and what optimizers were given."""
    weights = [*(each for layer in calls.layers.values() for each in layer.weights), *trained]
    return _known(weights, list(state), (), calls.by_variable())


def _known(
    weights: Sequence[Any], state: Sequence[Any], others: Sequence[Any], layers: Mapping[int, str]
) -> KnownVariables:
    paths = {path_of(each): layers.get(id(each)) for each in weights}
    found: dict[int, tuple[Any, Variable]] = {}
    for kind, group in ((WEIGHTS, weights), (OPTIMIZER_STATE, state), (OTHER_STATE, others)):
        for each in group:
            if id(each) not in found:
                layer = layers.get(id(each))
                if kind == OPTIMIZER_STATE:
                    layer = _layer_by_name(path_of(each), paths)
                found[id(each)] = (each, _variable(each, kind, layer))
    handles = {id(handle_of(each)): variable for each, variable in found.values()}
    return KnownVariables(tuple(variable for _, variable in found.values()), handles)


def _variable(variable: Any, kind: str, layer: str | None) -> Variable:
    shape = tuple(size or 0 for size in variable.shape)
    return Variable(path_of(variable), bytes_of(variable), kind, layer, shape)


def _layer_by_name(name: str, paths: Mapping[str, str | None]) -> str | None:
    """Keras names an optimizer's variables after the weights: ``adam/dense_kernel_momentum``."""
    flat = name.replace("/", "_")
    matching = [path for path in paths if path.replace("/", "_") in flat]
    return paths[max(matching, key=len)] if matching else None
