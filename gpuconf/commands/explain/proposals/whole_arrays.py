"""A whole array copied to the card before the first batch.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.files import from_files
from gpuconf.commands.explain.proposals.wording import (
    SEE_OTHERS,
    by_gpuconf,
    gpuconf_serves,
    keras_call,
    others_hold_much,
)
from gpuconf.support.failures.reading import LogFacts

_COPIED_WHOLE = (
    "fit, evaluate and predict copy a whole NumPy array to the card before the first batch, "
    "whatever the batch size"
)


def for_whole_array(facts: LogFacts) -> Iterator[Proposal]:
    """Pass it in batches; the batch size does not affect the copy."""
    call, batch = keras_call(facts) or "fit", facts.batch_size or 32
    if gpuconf_serves(facts):
        yield Proposal(
            "let gpuconf hand it over batch by batch",
            f"{_COPIED_WHOLE}; gpuconf.{call} takes the same arguments, keeps the array in the "
            "host's RAM, and halves a batch that does not fit",
            "code",
            by_gpuconf(call, batch),
        )
    yield _as_data_set(call, batch)
    yield from islice(from_files(facts, call=call), 1)
    if others_hold_much(facts):
        yield SEE_OTHERS


def _as_data_set(call: str, batch: int) -> Proposal:
    is_fit = call == "fit"
    shuffles = "; fit no longer shuffles a data set, so shuffle the order" if is_fit else ""
    order = "np.random.permutation(len(x))" if is_fit else "np.arange(len(x))"
    names = ("x",) if call == "predict" else ("x", "y")
    rows = ", ".join(f"{name}[rows]" for name in names)
    specs = ", ".join(f"tf.TensorSpec((None, *{name}.shape[1:]), {name}.dtype)" for name in names)
    signature = f"({specs})" if len(names) > 1 else specs
    return Proposal(
        "give the data as a data set that stays in the host's RAM",
        f"{_COPIED_WHOLE}{shuffles}",
        "code",
        "import numpy as np, tensorflow as tf\n"
        "def batches():\n"
        f"    order = {order}\n"
        f"    for start in range(0, len(x), {batch}):\n"
        f"        rows = order[start:start + {batch}]\n"
        f"        yield {rows}\n"
        "data = tf.data.Dataset.from_generator(\n"
        f"    batches, output_signature={signature})\n"
        f"steps = tf.data.experimental.assert_cardinality(-(-len(x) // {batch}))\n"
        f"model.{call}(data.apply(steps).prefetch(1))",
    )
