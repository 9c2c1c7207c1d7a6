"""The card's memory: for a tensor, for a whole array, fragmented, and at the start."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gpuconf.diagnosis.diagnosis import Proposal
from gpuconf.diagnosis.proposals.batches import is_of_a_batch
from gpuconf.diagnosis.proposals.files import from_files
from gpuconf.diagnosis.proposals.smaller_batches import accumulated_gradients, smaller_batch
from gpuconf.diagnosis.proposals.wording import (
    SEE_OTHERS,
    by_gpuconf,
    gpuconf_serves,
    is_version_1,
    keras_call,
    little_is_free,
    needs_run,
    profile,
    tensorflow_version,
)
from gpuconf.messages.facts.tensor import is_of_weights
from gpuconf.messages.reading import LogFacts
from gpuconf.units import GIB, MIB, sized

# Weights of this size are of a layer that could be another.
_LARGE_WEIGHTS = 256 * MIB
# No card that TensorFlow computes on has less; a smaller limit means that others were there.
_TINY_LIMIT = GIB
_TINY = "TensorFlow had {} of the card: others hold the rest, or the script's limit is very low"
_COPIED_WHOLE = (
    "fit, evaluate and predict copy a whole NumPy array to the card before the first batch, "
    "whatever the batch size"
)


def for_tensor(facts: LogFacts) -> Iterator[Proposal]:
    """A smaller batch, a limit that is not the wall, the others on the card, smaller numbers."""
    found = list(_for_tensor(facts))
    yield from found or [SEE_OTHERS]


def _for_tensor(facts: LogFacts) -> Iterator[Proposal]:
    if _is_larger_than_the_card(facts):
        yield Proposal(
            "compute it in pieces: one tensor is larger than the card",
            f"{_asked(facts)} were asked for; no setting of the memory can help",
            "code",
            "for part in tf.split(queries, pieces):   # or index the rows batch by batch\n"
            "    results.append(model(part))",
        )
        return
    if little_is_free(facts):
        yield SEE_OTHERS
        yield from smaller_batch(facts)
        return
    yield from smaller_batch(facts)
    yield from _smaller_layer(facts)
    if _limit_is_the_wall(facts):
        yield _raise_limit(facts)
    elif _limit_is_tiny(facts):
        yield SEE_OTHERS._replace(reason=_TINY.format(sized(_limit(facts) or 0)))
    if _others_hold_much(facts):
        yield SEE_OTHERS
    yield from _half_precision(facts)
    yield from accumulated_gradients(facts)


def for_whole_array(facts: LogFacts) -> Iterator[Proposal]:
    """Hand it over in batches; the batch size does not matter to its copying."""
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
    if _others_hold_much(facts):
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


def for_fragmentation(facts: LogFacts) -> Iterator[Proposal]:
    """Another allocator; tensors of the same sizes; the batch last."""
    version = tensorflow_version(facts)
    if version is None or version >= (2, 5):
        yield profile(
            facts,
            "let CUDA's own allocator manage the memory",
            "it maps free pieces together; it ignores memory limits, so on a shared card the "
            "others must leave room",
            "extends: shared-desktop",
            "memory: {per_process_gpu_memory_fraction: null, keep_free: null}",
            "tensorflow: {allocator: cuda_malloc_async}",
            options="--set tensorflow.allocator=cuda_malloc_async --set memory.keep_free=null "
            "--set memory.per_process_gpu_memory_fraction=null",
        )
    yield Proposal(
        "keep the shapes the same from step to step",
        "tensors of changing sizes fragment the memory: drop or pad the last partial batch, and "
        "pad sequences to a few lengths",
        "code",
        "data = data.batch(batch_size, drop_remainder=True)",
    )


def for_startup(facts: LogFacts) -> Iterator[Proposal]:
    """The others, a share of what is free now, or waiting."""
    yield SEE_OTHERS
    card = facts.card
    free = f"; {sized(card.free_bytes)} were" if card and card.free_bytes is not None else ""
    if needs_run(facts) or not is_version_1(facts):
        yield profile(
            facts,
            "take a part of what is free, as it is needed",
            f"the limit is then computed from what is free at that moment{free}",
            "extends: shared-desktop   # allow_growth, and a limit below what is free",
            "memory: {at_least: 1GiB, on_shortage: {wait: 10min}}",
            options="--set memory.at_least=1GiB --wait 10min",
        )
    if is_version_1(facts):
        yield Proposal(
            "take memory as it is needed",
            "TensorFlow takes all of the card at the start, and others hold part of it",
            "code",
            "config = tf.ConfigProto()\nconfig.gpu_options.allow_growth = True\n"
            "session = tf.Session(config=config)",
        )


def _smaller_layer(facts: LogFacts) -> Iterator[Proposal]:
    """For weights that are too many: of a Dense below Flatten, or an Embedding."""
    node, tensor = facts.request.node or "", facts.request.tensor
    if tensor is None or not is_of_weights(node) or tensor.size_bytes < _LARGE_WEIGHTS:
        return
    yield Proposal(
        "a smaller layer: these are weights, of which a smaller batch makes no fewer",
        f"{sized(tensor.size_bytes)}, and as much again for the gradient and for each of the "
        "optimizer's slots",
        "code",
        "x = keras.layers.GlobalAveragePooling2D()(x)   # instead of Flatten(), before Dense",
    )


def _asked(facts: LogFacts) -> str:
    tensor = facts.request.tensor
    size = tensor.size_bytes if tensor is not None else facts.request.size_bytes
    return "more than there is" if size is None else sized(size)


def _is_larger_than_the_card(facts: LogFacts) -> bool:
    tensor, card = facts.request.tensor, facts.card
    size = tensor.size_bytes if tensor is not None else facts.request.size_bytes
    total = card.total_bytes if card is not None else None
    # No card has more than 288 GB; without a figure that is the wall.
    return size is not None and size > (total if total is not None else 288 * 10**9)


def _limit(facts: LogFacts) -> int | None:
    if facts.dump is not None and facts.dump.limit_bytes is not None:
        return facts.dump.limit_bytes
    return facts.card.limit_bytes if facts.card is not None else None


def _limit_is_the_wall(facts: LogFacts) -> bool:
    limit, total = _limit(facts), facts.card.total_bytes if facts.card is not None else None
    return limit is not None and total is not None and limit < 0.6 * total


def _others_hold_much(facts: LogFacts) -> bool:
    """Whether the log shows that others were there; unknown is no."""
    card = facts.card
    if card is None:
        return False
    if len(card.holders) > 1:
        return True
    if card.total_bytes is None or card.free_bytes is None:
        return False
    return card.free_bytes < 0.85 * card.total_bytes


def _limit_is_tiny(facts: LogFacts) -> bool:
    limit = _limit(facts)
    return limit is not None and limit < _TINY_LIMIT


def _raise_limit(facts: LogFacts) -> Proposal:
    limit, card = _limit(facts), facts.card
    total = card.total_bytes if card is not None else None
    return profile(
        facts,
        "allow TensorFlow more of the card",
        f"its limit was {sized(limit or 0)} of {sized(total or 0)}; `gpuconf plan` shows what is "
        "free now and which rule makes the limit",
        "extends: shared-desktop",
        "memory: {per_process_gpu_memory_fraction: 0.9}",
        options="--set memory.per_process_gpu_memory_fraction=0.9",
    )


def _half_precision(facts: LogFacts) -> Iterator[Proposal]:
    tensor = facts.request.tensor
    if is_version_1(facts) or (tensor is not None and tensor.dtype != "float32"):
        return
    if (tensor is not None and tensor.dtype is None) or not is_of_a_batch(facts):
        return
    yield Proposal(
        "compute in half precision",
        "activations then take 2 bytes an element instead of 4; weights stay float32",
        "code",
        'keras.mixed_precision.set_global_policy("mixed_float16")   # bfloat16 on newer cards',
    )
