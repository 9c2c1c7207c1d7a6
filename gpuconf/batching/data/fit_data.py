"""The data of ``fit``: what Keras gets to learn from and to validate with."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from gpuconf.batching.data.host_data import HostData, host_data
from gpuconf.batching.data.rows import SampleRows, is_rows
from gpuconf.errors import UsageError
from gpuconf.keras_api import nests
from gpuconf.keras_api.families import KerasFamily


class Training(NamedTuple):
    """What ``fit`` was given to learn from; ``epochs`` are those that will be trained."""

    x: Any
    y: Any
    sample_weight: Any
    batch_size: Any
    steps: int | None
    epochs: int
    shuffle: bool | str
    class_weight: Any


class Validation(NamedTuple):
    """What ``fit`` was given to validate with."""

    data: Any
    split: float
    batch_size: Any
    steps: int | None


def data_arguments(
    family: KerasFamily, training: Training, validation: Validation
) -> dict[str, Any]:
    """Keras's arguments that say which data: arrays as datasets, in batches of the host.

    Raises UsageError for arrays of different lengths, and a split of what is no array.
    """
    floatx = family.keras.backend.floatx()
    train, apart = _train_and_apart(training, validation, floatx, family)
    steps = training.steps
    if steps is None and not family.is_keras_3:
        steps = train.batches  # of a dataset that has all epochs
    found = {**train.arguments, "steps_per_epoch": steps, "validation_steps": validation.steps}
    # What was arrays is shuffled already.
    found["shuffle"] = training.shuffle if train.samples is None else False
    found["class_weight"] = _of_all_classes(training.class_weight, training.y)
    return found if apart is None else {**found, "validation_data": apart}


def _train_and_apart(
    training: Training, validation: Validation, floatx: str, family: KerasFamily
) -> tuple[HostData, Any]:
    """The data to learn from, and those to validate with; None where there are none."""
    arrays = (training.x, training.y, training.sample_weight)
    given = partial(
        host_data,
        *arrays,
        batch_size=training.batch_size,
        floatx=floatx,
        shuffle=training.shuffle,
        steps=training.steps,
        repeats=1 if family.is_keras_3 else max(1, training.epochs),
    )
    if validation.data is not None:
        return given(), _validation(validation, floatx)
    if not validation.split:
        return given(), None
    if not is_rows(training.x):
        raise UsageError(
            f"validation_split={validation.split} needs arrays, of which a part can be cut off",
            hint="validation_data=...",
        )
    if not 0 < validation.split < 1:
        raise UsageError(
            f"validation_split={validation.split} is no share between 0 and 1",
            hint="validation_split=0.2",
        )
    from_there = 1.0 - validation.split
    apart = host_data(
        *arrays,
        batch_size=validation.batch_size,
        floatx=floatx,
        section=(from_there, 1.0),
        steps=validation.steps,
    )
    return given(section=(0.0, from_there)), apart.arguments["x"]


def _validation(validation: Validation, floatx: str) -> Any:
    """Validation data as Keras takes them: arrays in batches of the host, others as they are."""
    data = validation.data
    parts = data if isinstance(data, (tuple, list)) else (data,)
    if not is_rows(parts[0]):
        return data
    given = host_data(
        *parts, batch_size=validation.batch_size, floatx=floatx, steps=validation.steps
    )
    return given.arguments["x"]


def _of_all_classes(class_weight: Any, y: Any) -> Any:
    """The weights, 1 for classes without one: so it is for Keras's arrays, not for its datasets."""
    import numpy as np

    is_one_array = nests.is_written_out(y) or hasattr(y, "shape")
    if not class_weight or not is_one_array:
        return class_weight
    labels = SampleRows(y, "float32")
    is_one_hot = bool(labels.sample_shape) and labels.sample_shape[-1] > 1
    last = labels.sample_shape[-1] - 1 if is_one_hot else labels.at(np.arange(labels.count)).max()
    return {**dict.fromkeys(range(int(last) + 1), 1.0), **class_weight}
