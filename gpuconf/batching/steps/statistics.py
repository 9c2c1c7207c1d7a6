"""Update BatchNormalization's moving statistics once per batch, however it is split."""

from __future__ import annotations

from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.variables import component


class MovingStatistics:
    """The moving means and variances of a model that is trained in parts."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._variables: list[Any] | None = None
        self._before: list[Any] = []
        self._moved: list[Any] = []

    def begin(self) -> None:
        """Save the values before the first part of a batch."""
        if self._variables is None:
            self._variables = _statistics_of(self._model)
            if self._variables:
                say(
                    "fit: BatchNormalization sees each part of a batch separately, so the learning "
                    "curve is that of smaller batches there; LayerNormalization is not affected"
                )
        self._before = [each + 0.0 for each in self._variables]  # copies
        self._moved = [0.0] * len(self._before)

    def add(self, share: float) -> None:
        """Add the values after a part with this share of the batch's samples."""
        for number, variable in enumerate(self._variables or ()):
            before = self._before[number]
            self._moved[number] += share * (variable - before)
            variable.assign(before)

    def end(self) -> None:
        """Set the combined values after the last part."""
        for variable, before, moved in zip(
            self._variables or (), self._before, self._moved, strict=True
        ):
            variable.assign(before + moved)
        self._before, self._moved = [], []


def _statistics_of(model: Any) -> list[Any]:
    found = []
    for layer in layers_of(model, include_self=True):
        if hasattr(layer, "moving_mean") and hasattr(layer, "moving_variance") and layer.trainable:
            found += [layer.moving_mean, layer.moving_variance]
    return [component(variable) for variable in found]
