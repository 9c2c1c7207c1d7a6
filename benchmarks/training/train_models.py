"""Train the models named on the command line, see ``trainings`` and ``on_device``."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from benchmarks.models.data import Batches
from benchmarks.models.registry import SEED, Model
from benchmarks.training.on_device import (
    NotOnTheCardError,
    PlacedGraphs,
    Seen,
    check_device,
    check_variables,
    is_card,
    memory,
    reset_memory_peak,
    run_cases,
)
from benchmarks.training.trainings import STEPS, TRAININGS, Training


def train(name: str) -> Seen:
    """Train one model for some steps; return its losses, weights and predictions."""
    import keras

    training = TRAININGS[name]
    case = training.model
    keras.backend.clear_session()
    gc.collect()
    keras.utils.set_random_seed(SEED)
    keras.mixed_precision.set_global_policy(case.policy)
    before = memory()
    reset_memory_peak()
    model = case.build()
    _compile(model, training)
    data = case.data(np.random.default_rng(SEED), STEPS * case.batch_size)
    losses = _Losses()
    with PlacedGraphs() as graphs:
        _fit(model, case, data, losses)
    after = memory()
    variables_bytes = check_variables([*model.variables, *_slots(model)])
    facts = {
        "loss": float(losses.seen[-1]),
        "peak_bytes": after and after["peak"],
        "variables_bytes": variables_bytes,
        "before_bytes": before and before["current"],
        "nodes_on_device": graphs.on_device,
        "nodes_elsewhere": graphs.elsewhere,
        "elsewhere": sorted(graphs.others),
        "compiled": bool(model.jit_compile),
    }
    _check_card(facts, model, data, case)
    return Seen(_arrays(model, losses, data, case), facts)


def _compile(model: Any, training: Training) -> None:
    import keras

    case = training.model
    config = {"class_name": training.optimizer, "config": dict(case.optimizer_options)}
    made = keras.optimizers.deserialize(config)
    options = {} if training.as_keras_does else {"jit_compile": False}
    model.compile(optimizer=made, loss=case.make_loss(), loss_weights=case.loss_weights, **options)


def _fit(model: Any, case: Model, data: Batches, losses: Any) -> None:
    """One epoch over the data in order: ``STEPS`` steps."""
    options = {"batch_size": case.batch_size, "shuffle": False, "verbose": 0}
    model.fit(data.inputs, data.targets, callbacks=[losses.callback()], **options)


class _Losses:
    """The loss after every step, as Keras shows it: the mean of the epoch so far."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def callback(self) -> Any:
        import keras

        return keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda _batch, logs: self.seen.append(float(logs["loss"]))
        )


def _slots(model: Any) -> list[Any]:
    variables = model.optimizer.variables
    return list(variables() if callable(variables) else variables)


def _check_card(facts: dict[str, Any], model: Any, data: Batches, case: Model) -> None:
    """Raise unless the training actually ran on this side's device."""
    first = _first_batch(data.inputs, case.batch_size)
    for output in _flat(model(first, training=True)):
        check_device("the model's output", output)
    if facts["nodes_on_device"] < facts["nodes_elsewhere"]:
        raise NotOnTheCardError(f"most nodes of the graphs ran elsewhere: {facts}")
    if is_card() and facts["peak_bytes"] < facts["variables_bytes"]:
        raise NotOnTheCardError(f"the GPU's memory never held the variables: {facts}")


def _arrays(model: Any, losses: _Losses, data: Batches, case: Model) -> dict[str, Any]:
    arrays: dict[str, Any] = {"losses": np.array(losses.seen)}
    for number, weights in enumerate(model.get_weights()):
        arrays[f"weights {number}"] = weights
    predicted = model.predict(data.inputs, batch_size=case.batch_size, verbose=0)
    for number, output in enumerate(_flat(predicted)):
        arrays[f"predictions {number}"] = output
    return arrays


def _first_batch(inputs: Any, count: int) -> Any:
    return [each[:count] for each in inputs] if isinstance(inputs, list) else inputs[:count]


def _flat(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


if __name__ == "__main__":
    run_cases(train)
