"""``fit``: Keras's own, with batches whose gradients are added up in parts that fit the card."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.batching.array_rows import is_rows
from gpuconf.batching.card_batch import MOST_RETRIES
from gpuconf.batching.evaluation_step import TestStep
from gpuconf.batching.failures import explained
from gpuconf.batching.host_data import HostData, checked_batch_size, host_data
from gpuconf.batching.keras_step import has_own_step
from gpuconf.batching.stepping import check_strategy, stepping
from gpuconf.batching.training_step import TrainStep
from gpuconf.errors import UsageError
from gpuconf.footprint.keras_models.families import Family, family_of


def fit(  # noqa: PLR0917  # Keras's signature
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool | str = True,
    class_weight: Any = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | str | None = None,
    validation_freq: Any = 1,
    *,
    card_batch_size: int | str = "auto",
    max_retries: int = MOST_RETRIES,
    **kwargs: Any,
) -> Any:
    """Keras's ``model.fit``, in which a batch that does not fit the card is taken in parts.

    Arguments, callbacks and result are Keras's; data are taken as `evaluate` takes them, in the
    order in which Keras would shuffle them.  ``batch_size`` (Keras's 32) is what the model learns
    from at each step, whatever the card takes: where it does not fit, its gradients are added up
    over smaller parts (gradient accumulation), and the weights are updated once, so that the
    learning curve stays the one asked for.  ``card_batch_size`` is the largest part; ``"auto"``
    begins with the whole batch.

    Out of memory, a step is undone: weights, optimizer, metrics, moving statistics and seeds of
    random layers; callbacks never see it.  Layers that look at the batch as a whole see its parts:
    BatchNormalization is said so, dropout draws other numbers.  A model with a ``train_step`` of
    its own cannot be taken in parts: its error is raised, with a diagnosis beside it.

    Raises as `evaluate` does, and UsageError for ``batch_size="auto"``: what is learnt depends
    on it.
    """
    family = family_of(model)
    check_strategy(model)
    most = _checked(batch_size, card_batch_size)
    train, validation = _data(
        family,
        (x, y, sample_weight),
        validation_data,
        validation_split,
        sizes=(batch_size, batch_size if validation_batch_size is None else validation_batch_size),
        steps=(steps_per_epoch, validation_steps),
        shuffle=shuffle,
        epochs=epochs - initial_epoch,
    )
    if steps_per_epoch is None and not family.is_keras_3:
        steps_per_epoch = train.batches  # of a dataset that has all epochs
    step = None
    if not has_own_step(model, "train_step"):
        step = TrainStep(model, card_batch_size=most, max_retries=max_retries)
    elif most is not None:
        raise UsageError(
            f"card_batch_size={most}, but the model has a train_step of its own, whose batches "
            "cannot be taken in parts",
            hint="a smaller batch_size=...",
        )
    test = TestStep(model, is_auto=validation_batch_size == "auto", max_retries=max_retries)
    with stepping(model, train=step, test=test):
        call = partial(
            model.fit,
            **train.arguments,
            **validation,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            shuffle=shuffle if train.samples is None else False,  # else they are shuffled already
            class_weight=class_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
            **kwargs,
        )
        try:
            return explained("fit", call)
        finally:
            if step is not None:
                step.end()


def _checked(batch_size: Any, card_batch_size: Any) -> int | None:
    """The largest part of a batch; None where that is to be found out."""
    if isinstance(batch_size, str):
        raise UsageError(
            f"batch_size of fit is {batch_size!r}; what is learnt depends on it, so it must be a "
            "number, and what the card takes of it at once is found out anyway",
            hint="batch_size=32",
        )
    checked_batch_size(batch_size, hint="batch_size=32")
    return checked_batch_size(
        card_batch_size, name="card_batch_size", hint='card_batch_size="auto"'
    )


def _data(
    family: Family,
    train: tuple[Any, Any, Any],
    validation: Any,
    validation_split: float,
    *,
    sizes: tuple[Any, Any],
    steps: tuple[int | None, int | None],
    shuffle: bool | str,
    epochs: int,
) -> tuple[HostData, dict[str, Any]]:
    """The data to learn from, and Keras's arguments for those to validate with."""
    floatx = family.keras.backend.floatx()
    given = partial(
        host_data,
        *train,
        batch_size=sizes[0],
        floatx=floatx,
        shuffle=shuffle,
        steps=steps[0],
        repeats=1 if family.is_keras_3 else max(1, epochs),
    )
    if validation is not None:
        return given(), {"validation_data": _validation(validation, sizes[1], steps[1], floatx)}
    if not validation_split:
        return given(), {}
    if not is_rows(train[0]):
        raise UsageError(
            f"validation_split={validation_split} needs arrays, of which a part can be cut off",
            hint="validation_data=...",
        )
    from_there = 1.0 - validation_split
    kept = given(section=(0.0, from_there))
    apart = host_data(
        *train, batch_size=sizes[1], floatx=floatx, section=(from_there, 1.0), steps=steps[1]
    )
    return kept, {"validation_data": apart.arguments["x"]}


def _validation(data: Any, batch_size: Any, steps: int | None, floatx: str) -> Any:
    """Validation data as Keras takes them: arrays in batches of the host, others as they are."""
    parts = data if isinstance(data, (tuple, list)) else (data,)
    if not is_rows(parts[0]):
        return data
    given = host_data(*parts, batch_size=batch_size, floatx=floatx, steps=steps)
    return given.arguments["x"]
