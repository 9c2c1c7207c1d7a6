"""Records layer calls, to find the layer of an operation or a variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuconf.commands.estimate.step import OPTIMIZER_STATE, OTHER_STATE, WEIGHTS, Variable
from gpuconf.support.keras_api.families import KerasFamily
from gpuconf.support.keras_api.variables import bytes_of, handle_of, optimizer_variables, path_of

_OWN_MODULES = ("keras.", "tf_keras.", "keras_hub.", "keras_nlp.", "keras_cv.")


class Span(NamedTuple):
    """The operations from number ``first`` up to ``end`` come from the layer at ``path``.

    Spans of inner layers precede the enclosing ones.
    """

    first: int
    end: int
    path: str


class LayerCalls:
    """Records the layers called while a graph is traced, as paths such as ``encoder/dense_1``.

    A path descends into models and the user's own layers, but not into Keras layers: an attention
    layer gets a single row.
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
        """Record calls; ``graph_of()`` returns the graph that is currently being traced."""
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
        """Return the path of a layer that has its own row."""
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
        """Whether layers inside this one have their own rows."""
        if isinstance(layer, self._family.keras.Model):
            return True
        return not type(layer).__module__.startswith(_OWN_MODULES)

    def by_variable(self) -> dict[int, str]:
        """Return the path of each layer variable, by the variable's identity."""
        found: dict[int, str] = {}
        for path, layer in sorted(self.layers.items(), key=lambda item: -item[0].count("/")):
            for variable in layer.variables:
                found.setdefault(id(variable), path)
        return found


class KnownVariables(NamedTuple):
    """All variables, each once, with the identities of their TensorFlow handles."""

    variables: tuple[Variable, ...]
    by_handle: Mapping[int, Variable]


def variables_of(model: Any, layers: Mapping[int, str], *, training: bool) -> KnownVariables:
    """Return weights, optimizer state if training, and others such as metrics and random seeds."""
    weights = list(model.weights)
    state = optimizer_variables(model.optimizer) if training else []
    others = [*model.variables, *(each for metric in model.metrics for each in metric.variables)]
    return _known(weights, state, others, layers)


def variables_used(
    calls: LayerCalls, trained: Iterable[Any], state: Iterable[Any]
) -> KnownVariables:
    """Return the variables of a script's own step: called layers' weights, optimizers' state."""
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
    return Variable(path_of(variable), bytes_of(variable), kind, layer)


def _layer_by_name(name: str, paths: Mapping[str, str | None]) -> str | None:
    """Find a layer by an optimizer variable's name, which contains the weight's name.

    For example ``adam/dense_kernel_momentum``.
    """
    flat = name.replace("/", "_")
    matching = [path for path in paths if path.replace("/", "_") in flat]
    return paths[max(matching, key=len)] if matching else None
