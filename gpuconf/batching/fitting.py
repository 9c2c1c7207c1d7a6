"""``fit``: Keras's own, with gradients accumulated over the parts of a batch that does not fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuconf.batching.data.fit_data import Training, Validation, fit_data
from gpuconf.batching.data.host_data import checked_batch_size
from gpuconf.batching.evaluating import EvaluationStep
from gpuconf.batching.failures import explained
from gpuconf.batching.size import MOST_RETRIES
from gpuconf.batching.steps.engines import Engine, engine_of
from gpuconf.batching.steps.training import TrainStep
from gpuconf.errors import UsageError
from gpuconf.support.keras_api.families import family_on_any_backend, has_own_step
from gpuconf.support.keras_api.stepping import check_strategy


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
    """Keras's ``model.fit``, which splits a batch that does not fit the GPU into parts.

    The arguments, callbacks and result are the same as in Keras. Steps run and data is handled as
    in `evaluate`, in the same shuffled order that Keras would use. ``batch_size`` (32) is the
    number of samples per update, whatever fits the GPU. If a batch does not fit, gradients are
    accumulated over parts of at most ``card_batch_size`` samples, and the weights are updated once.
    ``"auto"`` finds this size. A step that runs out of memory is undone, and callbacks never see
    it. BatchNormalization and dropout operate on the parts. A model with its own ``train_step`` is
    not split.

    Raises the errors of `evaluate`, and UsageError for ``batch_size="auto"``, because the result of
    training depends on the batch size.
    """
    family = family_on_any_backend(model)
    check_strategy(model, "fit")
    engine = engine_of(model)
    most = _checked(batch_size, card_batch_size)
    apart_size = batch_size if validation_batch_size is None else validation_batch_size
    apart = Validation(validation_data, validation_split, apart_size, validation_steps)
    epochs_left = epochs - initial_epoch
    given = Training(
        x, y, sample_weight, batch_size, steps_per_epoch, epochs_left, shuffle, class_weight
    )
    found = fit_data(family, given, apart)
    train = _train_step(model, engine, most, max_retries)
    is_auto = apart_size == "auto"
    test = EvaluationStep(model, engine, is_auto=is_auto, max_retries=max_retries)
    options = {"validation_freq": validation_freq, **kwargs}
    options |= {"initial_epoch": initial_epoch, "verbose": verbose, "callbacks": callbacks}
    steps = {"train": found.train.reading(train), "test": found.test.reading(test)}
    with engine.calling(**steps), found.train.building(model):
        try:
            return explained("fit", partial(model.fit, **found.arguments, epochs=epochs, **options))
        finally:
            engine.end()


def _train_step(
    model: Any, engine: Engine, most: int | None, max_retries: int
) -> Callable[[Any], Any]:
    """Our step, in parts of at most ``most`` samples, or the model's own if it has one."""
    if not has_own_step(model, "train_step"):
        return TrainStep(model, engine, card_batch_size=most, max_retries=max_retries)
    if most is None:
        return engine.own_train
    raise UsageError(
        f"card_batch_size={most}, but the model has its own train_step, whose batches "
        "cannot be processed in parts",
        hint="a smaller batch_size=...",
    )


def _checked(batch_size: Any, card_batch_size: Any) -> int | None:
    """The largest part of a batch, or None if it has to be found."""
    if isinstance(batch_size, str):
        raise UsageError(
            f"fit's batch_size is {batch_size!r}, but it must be a number, because it affects what "
            "the model learns; gpuconf finds the part size that fits anyway",
            hint="batch_size=32",
        )
    checked_batch_size(batch_size, hint="batch_size=32")
    return checked_batch_size(
        card_batch_size, name="card_batch_size", hint='card_batch_size="auto"'
    )
