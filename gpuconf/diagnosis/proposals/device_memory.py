"""The card's memory: for a tensor, for a whole array, in pieces, and at the start."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.diagnosis.diagnosis import Facts, Proposal
from gpuconf.diagnosis.facts.operations import is_of_weights
from gpuconf.diagnosis.proposals.batches import (
    CALLS,
    Fit,
    batch_of,
    fitting_batch,
    is_of_a_batch,
)
from gpuconf.diagnosis.proposals.wording import (
    HALF_THE_BATCH,
    SEE_OTHERS,
    is_version_1,
    little_is_free,
    profile,
    sized,
    tensorflow_version,
)
from gpuconf.units import GIB, MIB

# Weights of this size are of a layer that could be another.
_LARGE_WEIGHTS = 256 * MIB
# No card that TensorFlow computes on has less; a smaller limit means that others were there.
_TINY_LIMIT = GIB
_TINY = "TensorFlow had {} of the card: others hold the rest, or the script's limit is very low"
_COPIED_WHOLE = (
    "fit, evaluate and predict copy a whole NumPy array to the card before the first batch, "
    "whatever the batch size"
)
# A first dimension that no one takes for a batch on purpose.
_WHOLE_DATA_SET = 1000


def for_tensor(facts: Facts) -> Iterator[Proposal]:
    """A smaller batch, a limit that is not the wall, the others on the card, smaller numbers."""
    found = list(_for_tensor(facts))
    yield from found or [SEE_OTHERS]


def _for_tensor(facts: Facts) -> Iterator[Proposal]:
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
        yield from _smaller_batch(facts)
        return
    yield from _smaller_batch(facts)
    yield from _smaller_layer(facts)
    if _limit_is_the_wall(facts):
        yield _raise_limit(facts)
    elif _limit_is_tiny(facts):
        yield SEE_OTHERS._replace(reason=_TINY.format(sized(_limit(facts) or 0)))
    if _others_hold_much(facts):
        yield SEE_OTHERS
    yield from _half_precision(facts)
    yield from _accumulated_gradients(facts)


def for_whole_array(facts: Facts) -> Iterator[Proposal]:
    """Hand it over in batches; the batch size does not matter to its copying."""
    call, batch = _call(facts), facts.batch_size or 32
    version = tensorflow_version(facts)
    if version is None or version >= (2, 15):
        size = f"batch_size={batch}" if call == "fit" else 'batch_size="auto"'
        yield Proposal(
            "let gpuconf hand it over batch by batch",
            f"{_COPIED_WHOLE}; gpuconf.{call} takes the same arguments, keeps the array in the "
            "computer's memory, and halves a batch that does not fit",
            "code",
            f"import gpuconf\ngpuconf.{call}(model, x, y, {size})"
            if call != "predict"
            else f"import gpuconf\ngpuconf.predict(model, x, {size})",
        )
    yield _as_data_set(call, batch)
    yield Proposal(
        "read images from their paths instead of one large array",
        "then neither the card nor the computer holds all of them",
        "code",
        'data = keras.utils.image_dataset_from_directory("images", batch_size=32)',
    )
    if _others_hold_much(facts):
        yield SEE_OTHERS


def _as_data_set(call: str, batch: int) -> Proposal:
    return Proposal(
        "give the data as a data set that stays in the computer's memory",
        f"{_COPIED_WHOLE}; fit no longer shuffles a data set, so shuffle the order",
        "code",
        "import numpy as np, tensorflow as tf\n"
        "def batches():\n"
        "    order = np.random.permutation(len(x))\n"
        f"    for start in range(0, len(x), {batch}):\n"
        f"        rows = order[start:start + {batch}]\n"
        "        yield x[rows], y[rows]\n"
        "data = tf.data.Dataset.from_generator(batches, output_signature=(\n"
        "    tf.TensorSpec((None, *x.shape[1:]), x.dtype), "
        "tf.TensorSpec((None, *y.shape[1:]), y.dtype)))\n"
        f"model.{call}(data.prefetch(1))",
    )


def for_fragmentation(facts: Facts) -> Iterator[Proposal]:
    """Another allocator; tensors of the same sizes; the batch last."""
    version = tensorflow_version(facts)
    if version is None or version >= (2, 5):
        yield profile(
            "let CUDA's own allocator manage the memory",
            "it maps free pieces together; it heeds no memory limit, so on a shared card the "
            "others must leave room",
            "extends: shared-desktop",
            "memory: {per_process_gpu_memory_fraction: null, keep_free: null}",
            "tensorflow: {allocator: cuda_malloc_async}",
        )
    yield Proposal(
        "keep the shapes the same from step to step",
        "tensors of ever new sizes break the memory up: drop or pad the last partial batch, and "
        "pad sequences to a few lengths",
        "code",
        "data = data.batch(batch_size, drop_remainder=True)",
    )


def for_startup(facts: Facts) -> Iterator[Proposal]:
    """The others, a share of what is free now, or waiting."""
    yield SEE_OTHERS
    card = facts.card
    if is_version_1(facts):
        yield Proposal(
            "take memory as it is needed",
            "TensorFlow takes all of the card at the start, and others hold part of it",
            "code",
            "config = tf.ConfigProto()\nconfig.gpu_options.allow_growth = True\n"
            "session = tf.Session(config=config)",
        )
        return
    free = f"; {sized(card.free_bytes)} were" if card and card.free_bytes is not None else ""
    yield profile(
        "take a part of what is free, as it is needed",
        f"the limit is then computed from what is free at that moment{free}",
        "extends: shared-desktop   # allow_growth, and a limit below what is free",
        "memory: {at_least: 1GiB, on_shortage: {wait: 10min}}",
    )


def _smaller_batch(facts: Facts) -> Iterator[Proposal]:
    fit = fitting_batch(facts)
    if fit is None:
        tensor = facts.request.tensor
        is_one = tensor is not None and tensor.shape[0] == 1
        if batch_of(facts) is None and is_of_a_batch(facts) and not is_one:
            yield HALF_THE_BATCH
        return
    if fit.batch >= _WHOLE_DATA_SET and facts.batch_size is None:
        yield _in_batches(fit, facts)
        return
    yield Proposal(
        f"a batch of {fit.fits} instead of {fit.batch}",
        f"{fit.because}; more may be asked for later: `gpuconf rehearse` measures it",
        "batch",
        _keras(_call(facts), fit.fits) if _is_keras(facts) else f"batch_size = {fit.fits}",
    )


def _in_batches(fit: Fit, facts: Facts) -> Proposal:
    """For a whole data set that was given at once."""
    looks = f"the first dimension, {fit.batch}, looks like a whole data set given at once"
    because = f"{looks}; {fit.because}"
    if not _is_keras(facts):
        rows = f"for start in range(0, len(x), {fit.fits})"
        return Proposal(
            f"compute it in pieces of at most {fit.fits} rows",
            because,
            "code",
            f"parts = [compute(x[start:start + {fit.fits}]) {rows}]",
        )
    call = _call(facts, "evaluate")
    return Proposal(
        f"{call} in batches of at most {fit.fits}",
        because,
        "batch",
        _keras(call, min(fit.fits, 128)),
    )


def _smaller_layer(facts: Facts) -> Iterator[Proposal]:
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


def _keras(call: str, batch: int) -> str:
    return f"model.{call}({'x' if call == 'predict' else 'x, y'}, batch_size={batch})"


def _is_keras(facts: Facts) -> bool:
    code = facts.user_code.code if facts.user_code is not None else None
    return code is None or any(f".{name}(" in code for name in CALLS)


def _call(facts: Facts, default: str = "fit") -> str:
    code = (facts.user_code.code if facts.user_code else None) or ""
    found = [name for name in CALLS if f".{name}(" in code]
    return found[0] if found else default


def _asked(facts: Facts) -> str:
    tensor = facts.request.tensor
    size = tensor.size_bytes if tensor is not None else facts.request.size_bytes
    return "more than there is" if size is None else sized(size)


def _is_larger_than_the_card(facts: Facts) -> bool:
    tensor, card = facts.request.tensor, facts.card
    size = tensor.size_bytes if tensor is not None else facts.request.size_bytes
    total = card.total_bytes if card is not None else None
    # No card has more than 288 GB; without a figure that is the wall.
    return size is not None and size > (total if total is not None else 288 * 10**9)


def _limit(facts: Facts) -> int | None:
    if facts.dump is not None and facts.dump.limit_bytes is not None:
        return facts.dump.limit_bytes
    return facts.card.limit_bytes if facts.card is not None else None


def _limit_is_the_wall(facts: Facts) -> bool:
    limit, total = _limit(facts), facts.card.total_bytes if facts.card is not None else None
    return limit is not None and total is not None and limit < 0.6 * total


def _others_hold_much(facts: Facts) -> bool:
    """Whether the log shows that others were there; unknown is no."""
    card = facts.card
    if card is None:
        return False
    if len(card.holders) > 1:
        return True
    if card.total_bytes is None or card.free_bytes is None:
        return False
    return card.free_bytes < 0.85 * card.total_bytes


def _limit_is_tiny(facts: Facts) -> bool:
    limit = _limit(facts)
    return limit is not None and limit < _TINY_LIMIT


def _raise_limit(facts: Facts) -> Proposal:
    limit, card = _limit(facts), facts.card
    total = card.total_bytes if card is not None else None
    return profile(
        "allow TensorFlow more of the card",
        f"its limit was {sized(limit or 0)} of {sized(total or 0)}; `gpuconf plan` shows what is "
        "free now and which rule makes the limit",
        "extends: shared-desktop",
        "memory: {per_process_gpu_memory_fraction: 0.9}",
    )


def _half_precision(facts: Facts) -> Iterator[Proposal]:
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


def _accumulated_gradients(facts: Facts) -> Iterator[Proposal]:
    """For a training of which the log says that it is one of Keras 3's."""
    code = (facts.user_code.code if facts.user_code is not None else None) or ""
    if ".fit(" not in code or is_version_1(facts) or batch_of(facts) == 1:
        return
    yield Proposal(
        "keep the effective batch with gradient accumulation",
        "a smaller batch on the card, and the optimizer acts on the sum of several (Keras 3)",
        "code",
        "optimizer = keras.optimizers.Adam(gradient_accumulation_steps=4)",
    )
