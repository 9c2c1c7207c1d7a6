"""The data for ``fit``: the training and validation data that Keras receives."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from gpuconf.batching.data.host_data import HostData, host_data
from gpuconf.batching.data.rows import SampleRows, is_rows
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import KerasFamily


class Training(NamedTuple):
    """The training arguments of ``fit``; ``epochs`` is the number of epochs still to train."""

    x: Any
    y: Any
    sample_weight: Any
    batch_size: Any
    steps: int | None
    epochs: int
    shuffle: bool | str
    class_weight: Any


class Validation(NamedTuple):
    """The validation arguments of ``fit``."""

    data: Any
    split: float
    batch_size: Any
    steps: int | None


class FitData(NamedTuple):
    """Keras's data arguments, and the training and validation data that they represent."""

    arguments: dict[str, Any]
    train: HostData
    test: HostData


def fit_data(family: KerasFamily, training: Training, validation: Validation) -> FitData:
    """Return the data for ``fit``; arrays are cut into batches on the host.

    Raises UsageError for arrays of different lengths, and for splitting anything but arrays.
    """
    train, apart = _train_and_apart(training, validation, family)
    steps = training.steps
    if steps is None and not family.is_keras_3:
        steps = train.batches  # the dataset contains all epochs
    found = {**train.arguments, "steps_per_epoch": steps, "validation_steps": validation.steps}
    # A dataset made from arrays is already shuffled.
    is_shuffled = train.samples is not None and train.rows is None
    found["shuffle"] = False if is_shuffled else training.shuffle
    if train.rows is None:
        found["class_weight"] = _of_all_classes(training.class_weight, training.y)
    if apart is not None:
        found["validation_data"] = apart.arguments["x"]
        if apart.rows is not None:
            found["validation_batch_size"] = apart.arguments["batch_size"]
    return FitData(found, train, train if apart is None else apart)


def _train_and_apart(
    training: Training, validation: Validation, family: KerasFamily
) -> tuple[HostData, HostData | None]:
    """Return the training data, and the validation data, or None if there is none."""
    of_family = partial(host_data, floatx=family.keras.backend.floatx(), backend=family.backend)
    arrays = (training.x, training.y, training.sample_weight)
    given = partial(
        of_family,
        *(training.x, training.y, _weights_of_samples(family, training)),
        batch_size=training.batch_size,
        shuffle=training.shuffle,
        steps=training.steps,
        repeats=1 if family.is_keras_3 else max(1, training.epochs),
    )
    apart = partial(of_family, batch_size=validation.batch_size, steps=validation.steps)
    if validation.data is not None:
        data = validation.data
        parts = data if isinstance(data, (tuple, list)) else (data,)
        # Anything but arrays is passed on unchanged.
        return given(), apart(*parts) if is_rows(parts[0]) else HostData({"x": data}, False)
    if not validation.split:
        return given(), None
    if not is_rows(training.x):
        raise UsageError(
            f"validation_split={validation.split} requires arrays, which can be split",
            hint="validation_data=...",
        )
    if not 0 < validation.split < 1:
        raise UsageError(
            f"validation_split={validation.split} is not a fraction between 0 and 1",
            hint="validation_split=0.2",
        )
    from_there = 1.0 - validation.split
    return given(section=(0.0, from_there)), apart(*arrays, section=(from_there, 1.0))


def _weights_of_samples(family: KerasFamily, training: Training) -> Any:
    """Return the sample weights, computed from class weights if Keras sees only indices."""
    if not training.class_weight or family.backend == "tensorflow" or not is_rows(training.x):
        return training.sample_weight
    if training.sample_weight is not None:
        raise UsageError(
            "class_weight and sample_weight cannot both be given: each sample has only one weight",
            hint="sample_weight=..., with the class weights multiplied in",
        )
    import numpy as np

    labels = SampleRows(training.y, "float32")
    classes = labels.at(np.arange(labels.count))
    if classes.ndim > 1:  # one-hot, or one column
        classes = classes.argmax(axis=-1) if classes.shape[-1] > 1 else classes[..., 0]
    weights = (training.class_weight.get(int(each), 1.0) for each in np.round(classes))
    return np.fromiter(weights, family.keras.backend.floatx(), count=labels.count)


def _of_all_classes(class_weight: Any, y: Any) -> Any:
    """Fill in weight 1 for missing classes, as Keras does for arrays but not for datasets."""
    import numpy as np

    is_one_array = nests.is_written_out(y) or hasattr(y, "shape")
    if not class_weight or not is_one_array:
        return class_weight
    labels = SampleRows(y, "float32")
    is_one_hot = bool(labels.sample_shape) and labels.sample_shape[-1] > 1
    last = labels.sample_shape[-1] - 1 if is_one_hot else labels.at(np.arange(labels.count)).max()
    return {**dict.fromkeys(range(int(last) + 1), 1.0), **class_weight}
