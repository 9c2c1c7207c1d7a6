"""``gpuconf estimate --probe``: an estimate calibrated by a few real steps."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from gpuconf.cli.estimate_card import measure
from gpuconf.cli.memory_limit import of_profile
from gpuconf.errors import UsageError
from gpuconf.footprint.correction import TracedAt
from gpuconf.footprint.memory_estimate import MemoryEstimate
from gpuconf.footprint.probe.order import Order
from gpuconf.footprint.probing import calibrated, probed_batches


def probed(
    estimate: MemoryEstimate,
    model: Any,
    options: argparse.Namespace,
    *,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
) -> MemoryEstimate:
    """The estimate of ``model`` that was made with these options, calibrated by a probe.

    ``environ`` is the environment in which the command was started, with its GPUs; ``tell`` hears
    what is being done.  Raises as `measure` does.
    """
    order = _order(options)
    traced_at = _tracing(model, order, options)
    order = order._replace(batch_sizes=_batch_sizes(estimate, traced_at))
    probe = measure(order, environ=environ, tell=tell, profile=options.profile)
    tell("tracing the same steps")
    return calibrated(estimate, probe, traced_at)


def _order(options: argparse.Namespace) -> Order:
    shapes = options.input_shape
    return Order(
        target=options.target,
        folder=os.getcwd(),
        batch_sizes=(),
        training=not options.inference,
        optimizer=options.optimizer,
        loss=options.loss,
        jit=options.jit,
        mixed_precision=options.mixed_precision,
        input_shape=shapes[0] if shapes is not None and len(shapes) == 1 else shapes,
    )


def _tracing(model: Any, order: Order, options: argparse.Namespace) -> TracedAt:
    """The traced peak of the model at a batch size, each traced once."""
    from gpuconf.footprint.estimating import estimate

    @functools.cache
    def traced_at(batch_size: int) -> int:
        return estimate(
            model,
            batch_size,
            optimizer=order.optimizer,
            loss=order.loss,
            training=order.training,
            jit=order.jit,
            mixed_precision=order.mixed_precision,
            input_shape=order.input_shape,
            **of_profile(options),
        ).peak_bytes

    return traced_at


def _batch_sizes(estimate: MemoryEstimate, traced_at: TracedAt) -> tuple[int, ...]:
    """Two; the estimate's own alone for a model that is built for one batch size."""
    try:
        sizes = probed_batches(estimate, traced_at)
        for size in sizes:
            traced_at(size)
    except UsageError:
        return (estimate.batch_size,)
    return sizes
