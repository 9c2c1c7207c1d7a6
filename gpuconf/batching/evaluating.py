"""``evaluate``: Keras's own, with data that stay on the host and batches that fit the card."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.batching.card_batch import MOST_RETRIES
from gpuconf.batching.evaluation_step import EvaluationStep
from gpuconf.batching.failures import explained
from gpuconf.batching.host_data import host_data
from gpuconf.keras_api.families import family_of
from gpuconf.keras_api.stepping import check_strategy, stepping


def evaluate(  # noqa: PLR0917  # Keras's signature
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | str | None = "auto",
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
    *,
    max_retries: int = MOST_RETRIES,
    **kwargs: Any,
) -> Any:
    """Keras's ``model.evaluate``, in batches that fit the card.

    Arguments and result are Keras's.  Arrays, memmaps, HDF5 and frames stay in the computer's
    memory, or on the disk, and are handed over batch by batch; datasets, generators and PyDatasets
    keep their own batches.  ``batch_size`` is how many samples are handed over at once, and the
    most that the card gets; ``"auto"`` begins with what `gpuconf.estimate` says should fit.

    A part of a batch for which the card's memory is too small is undone, metrics and seeds of
    random layers included, and cut in halves; so the metrics are those of one pass over the data,
    whatever the batches were.  The size is remembered for this model and card (`forget`).  After
    ``max_retries`` more refusals, or where one sample does not fit, the user's own error is raised,
    with its diagnosis beside it on stderr.

    Raises UsageError for what is no model or cannot be cut, BackendError for Keras on another
    backend than TensorFlow, and what Keras raises.
    """
    family = family_of(model)
    check_strategy(model)
    floatx = family.keras.backend.floatx()
    given = host_data(x, y, sample_weight, batch_size=batch_size, floatx=floatx, steps=steps)
    step = EvaluationStep(model, is_auto=given.is_auto, max_retries=max_retries)
    with stepping(model, test=step):
        call = partial(
            model.evaluate,
            **given.arguments,
            verbose=verbose,
            steps=steps,
            callbacks=callbacks,
            return_dict=return_dict,
            **kwargs,
        )
        return explained("evaluate", call)
