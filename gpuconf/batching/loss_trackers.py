"""Keras's trackers of losses, told of a batch once, also where it comes in parts.

A tracker counts each part by its samples. That is right for a loss that is a mean over the
samples; a sum, or a mean over what a mask leaves, comes out as that of the batch only if the
parts are put together first. And Keras 3 counts batches for the losses of several outputs, the
last and shorter one like the others; here samples count.
"""

from __future__ import annotations

from typing import Any

from gpuconf.batching import part_weights
from gpuconf.keras_api.compiled import output_trackers, trackers_of
from gpuconf.keras_api.variables import component


class LossTrackers:
    """The trackers of a model's loss, and of each output's."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._before: dict[int, tuple[Any, Any]] = {}
        self._losses: dict[int, Any] = {}
        self._counts: dict[int, Any] = {}
        self._weight: Any = 0.0

    @property
    def are_wrong_of_whole(self) -> bool:
        """Whether what Keras tells them of a whole batch has to be put right."""
        return bool(output_trackers(self._model))

    def begin(self) -> None:
        """Before a batch."""
        self._before = {id(each): _state(each) for each in trackers_of(self._model)}
        self._losses, self._counts, self._weight = {}, {}, 0.0

    def add(self, weight: Any) -> None:
        """After a part whose loss counts so much; the trackers are set back."""
        import tensorflow as tf

        for tracker in trackers_of(self._model):
            key = id(tracker)
            total, count = self._before.setdefault(key, (0.0, 0.0))
            now_total, now_count = _state(tracker)
            loss = tf.math.divide_no_nan(now_total - total, now_count - count)
            self._losses[key] = self._losses.get(key, 0.0) + loss * weight
            self._counts[key] = self._counts.get(key, 0.0) + (now_count - count)
            _set(tracker, total, count)
        self._weight += weight

    def end(self, samples: int, logs: Any) -> Any:
        """After the last part of a batch of so many samples; gives the logs, put right."""
        import tensorflow as tf

        divisor = 1.0 if part_weights.is_sum(self._model) else self._weight
        results = {}
        for tracker in trackers_of(self._model):
            total, count = self._before[id(tracker)]
            was_told = tf.cast(self._counts[id(tracker)] > 0, tf.float32)
            loss = tf.math.divide_no_nan(self._losses[id(tracker)], divisor)
            _set(tracker, total + loss * samples, count + was_told * samples)
            results[tracker.name] = tracker.result()
        if not isinstance(logs, dict):
            return logs
        return {name: results.get(name, value) for name, value in logs.items()}


def _state(tracker: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    total, count = component(tracker.total), component(tracker.count)
    return tf.convert_to_tensor(total), tf.convert_to_tensor(count)


def _set(tracker: Any, total: Any, count: Any) -> None:
    component(tracker.total).assign(total)
    component(tracker.count).assign(count)
