"""GPU memory: for one tensor, fragmented, and at startup."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.basics.units import GIB, MIB, sized
from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.batches import is_of_a_batch
from gpuconf.commands.explain.proposals.other_programs import for_other_program, is_other_program
from gpuconf.commands.explain.proposals.smaller_batches import accumulated_gradients, smaller_batch
from gpuconf.commands.explain.proposals.torch_memory import SMALLER_SERVER
from gpuconf.commands.explain.proposals.wording import (
    HALF_THE_BATCH,
    SEE_OTHERS,
    is_before_policies,
    is_keras,
    is_version_1,
    little_is_free,
    needs_run,
    others_hold_much,
    profile,
    tensorflow_version,
)
from gpuconf.support.failures.facts.tensor import MemoryRequest, has_rows, is_of_weights
from gpuconf.support.failures.reading import LogFacts

# Weights of at least this size suggest a different layer.
_LARGE_WEIGHTS = 64 * MIB
# The least sides of a matrix that does not depend on the batch: inputs or words, by units.
_LEAST_UNITS, _LEAST_ROWS = 100, 20_000
# Programs that gpuconf profiles do not apply to.
_OTHER_PROGRAMS = {"vllm", "xgboost", "cupy", "rapids"}
# Requests this small fail only on a full card.
_LITTLE, _NOT_MUCH = 4 * MIB, 32 * MIB
_HUGE = 2 * GIB
_TWICE = (
    "weights of that size come with as much for the gradient and for each slot of the optimizer, "
    "and data of that size are often held twice"
)
_ONE_TENSOR = Proposal(
    "make the one large tensor smaller: data in pieces; a layer with fewer units or words",
    "",
    "code",
    "for part in tf.split(data, pieces):\n    results.append(compute(part))",
)
_SMALLER_INPUT = Proposal(
    "a smaller input, one at a time already: a crop, a lower resolution, a shorter sequence",
    "or fewer filters; the layers' outputs grow with its height times its width",
    "code",
    "images = tf.image.resize(images, (height // 2, width // 2))",
)
_LITTLE_ASKED = (
    "only {} were asked for, so the card, or TensorFlow's share of it, was full before: of another "
    "process, an old notebook, or what the program holds"
)
_FEWER_COPIES = Proposal(
    "or fewer copies of it: an optimizer without slots, one model at a time",
    "Adam holds two slots beside weights and gradient, SGD none; models of earlier rounds stay "
    "until the session is cleared",
    "code",
    "keras.backend.clear_session()   # before the next model\noptimizer = keras.optimizers.SGD()",
)
_WITHOUT_XLA = Proposal(
    "do not catch this error and continue, or train without XLA",
    "when a step that XLA compiled runs out of memory, TensorFlow 2.21 frees the variables that it "
    "was given: what is computed after that is wrong, and the process aborts at its end",
    "code",
    "model.compile(optimizer, loss, jit_compile=False)",
)
# TensorFlow does not use cards with less; a smaller limit means that other processes were there.
_TINY_LIMIT = GIB
# A limit below this share of a card is low, if no other process uses the card.
_LOW_SHARE = 0.35
_TINY = "TensorFlow had {} of the card: others hold the rest, or the script's limit is very low"


def for_tensor(facts: LogFacts) -> Iterator[Proposal]:
    """A smaller batch, a higher limit, other processes on the card, half precision."""
    found = list(for_other_program(facts) if is_other_program(facts) else _for_tensor(facts))
    found = found or _of_nothing_known(facts)
    yield found[0]
    if "freed_twice" in facts.details:
        yield _WITHOUT_XLA
    yield from found[1:]


def _of_nothing_known(facts: LogFacts) -> list[Proposal]:
    """A smaller batch, unless the facts contradict it, and the other processes."""
    is_empty = facts.request == MemoryRequest() and facts.batch_size != 1
    return [HALF_THE_BATCH, SEE_OTHERS] if is_empty else [SEE_OTHERS]


def _is_one(facts: LogFacts) -> bool:
    """Whether the failed tensor belongs to a single sample."""
    tensor = facts.request.tensor
    if tensor is None or is_of_weights(facts.request.node or ""):
        return False
    return len(tensor.shape) > 2 and tensor.shape[0] == 1 < tensor.shape[1]


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
    if (layer := _smaller_layer(facts)) is not None:
        yield layer
        yield _FEWER_COPIES
        yield SEE_OTHERS
        return
    if _limit_is_low(facts):
        yield _raise_limit(facts)
    if _one_is_huge(facts):
        yield _ONE_TENSOR._replace(reason=_why_one(facts))
        return
    full_before = SEE_OTHERS._replace(reason=_why_others(facts))
    if _asked_less_than(_LITTLE, facts) or "Dst tensor" in (facts.exception or ""):
        yield full_before
    if _is_one(facts):
        yield _SMALLER_INPUT
    yield from smaller_batch(facts)
    if _asked_less_than(_NOT_MUCH, facts):
        yield full_before
    if _limit_is_the_wall(facts) and not _limit_is_low(facts):
        yield _raise_limit(facts)
    elif _limit_is_tiny(facts):
        yield SEE_OTHERS._replace(reason=_TINY.format(sized(_limit(facts) or 0)))
    if others_hold_much(facts):
        yield SEE_OTHERS
    yield from _half_precision(facts)
    yield from accumulated_gradients(facts)


def for_fragmentation(facts: LogFacts) -> Iterator[Proposal]:
    """Another allocator, then tensors of constant shapes."""
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
    """Other processes, then a share of the memory that is free now."""
    yield SEE_OTHERS
    if facts.framework in ("torch", "jax") or set(facts.signs) & _OTHER_PROGRAMS:
        yield from [SMALLER_SERVER] if "vllm" in facts.signs else []
        return
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
    if is_version_1(facts) and "growth-set" not in facts.signs:
        yield Proposal(
            "take memory as it is needed",
            "TensorFlow takes all of the card at the start, and others hold part of it",
            "code",
            "config = tf.ConfigProto()\nconfig.gpu_options.allow_growth = True\n"
            "session = tf.Session(config=config)",
        )


def _smaller_layer(facts: LogFacts) -> Proposal | None:
    """For oversized weights: of a Dense layer after Flatten, or an Embedding."""
    tensor = facts.request.tensor
    if tensor is None or tensor.size_bytes < _LARGE_WEIGHTS or not _are_weights(facts):
        return None
    return Proposal(
        "a smaller layer: these are weights, and a smaller batch does not reduce them",
        f"{sized(tensor.size_bytes)}, and as much again for the gradient and for each of the "
        "optimizer's slots; fewer units, a smaller vocabulary, or pooling before the layer",
        "code",
        "x = keras.layers.GlobalAveragePooling2D()(x)   # instead of Flatten(), before Dense",
    )


def _are_weights(facts: LogFacts) -> bool:
    """Whether the failed tensor is a matrix of weights, not computed from a batch."""
    node, tensor = facts.request.node or "", facts.request.tensor
    if tensor is not None and is_of_weights(node, tensor.shape):
        return True
    if tensor is None or len(tensor.shape) != 2 or has_rows(node):
        return False
    batch = facts.batch_size
    is_table = min(tensor.shape) >= _LEAST_UNITS and max(tensor.shape) >= _LEAST_ROWS
    return is_table and (batch is None or batch not in tensor.shape)


def _why_others(facts: LogFacts) -> str:
    if facts.request.tensor is None and facts.request.size_bytes is None:
        return "a copy to the card did not fit, most often because the card was already full"
    return _LITTLE_ASKED.format(_asked(facts))


def _one_is_huge(facts: LogFacts) -> bool:
    """Whether a single tensor, apparently not a batch, takes much of the card."""
    dump, tensor = facts.dump, facts.request.tensor
    of_xla = "while trying to allocate" in (facts.exception or "")  # a whole step
    if tensor is not None or facts.batch_size is not None or of_xla:
        return False
    asked = facts.request.size_bytes
    if asked is not None:
        return asked >= _HUGE
    if dump is None or dump.limit_bytes is None or dump.in_use_bytes is None:
        return False
    return dump.limit_bytes - dump.in_use_bytes >= max(_HUGE, dump.limit_bytes // 2)


def _why_one(facts: LogFacts) -> str:
    asked, dump = facts.request.size_bytes, facts.dump
    if asked is not None:
        return f"{sized(asked)} were asked for in one piece; {_TWICE}"
    in_use = dump.in_use_bytes if dump is not None else None
    limit = dump.limit_bytes if dump is not None else None
    return (
        f"only {sized(in_use or 0)} of {sized(limit or 0)} were in use, so what was asked for is "
        f"larger than all that was free; {_TWICE}"
    )


def _asked_less_than(most: int, facts: LogFacts) -> bool:
    """Whether the request was so small that something else filled the card; a dump shows what."""
    tensor, dump = facts.request.tensor, facts.dump
    size = tensor.size_bytes if tensor is not None else facts.request.size_bytes
    return dump is None and size is not None and size < most


def _asked(facts: LogFacts) -> str:
    tensor = facts.request.tensor
    size = tensor.size_bytes if tensor is not None else facts.request.size_bytes
    return "more than there is" if size is None else sized(size)


def _is_larger_than_the_card(facts: LogFacts) -> bool:
    tensor, card = facts.request.tensor, facts.card
    size = tensor.size_bytes if tensor is not None else facts.request.size_bytes
    total = card.total_bytes if card is not None else None
    # No card has more than 288 GB, so that is the bound if the total is unknown.
    return size is not None and size > (total if total is not None else 288 * 10**9)


def _limit(facts: LogFacts) -> int | None:
    if facts.dump is not None and facts.dump.limit_bytes is not None:
        return facts.dump.limit_bytes
    return facts.card.limit_bytes if facts.card is not None else None


def _limit_is_the_wall(facts: LogFacts) -> bool:
    limit, total = _limit(facts), facts.card.total_bytes if facts.card is not None else None
    return limit is not None and total is not None and limit < 0.6 * total


def _limit_is_low(facts: LogFacts) -> bool:
    """Whether the limit is full, not the card; then the limit is the first thing to change."""
    limit, card = _limit(facts), facts.card
    total = card.total_bytes if card is not None else None
    if limit is None or total is None or others_hold_much(facts):
        return False
    return limit < _LOW_SHARE * total


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
    if is_before_policies(facts) or not is_keras(facts) or "xgboost" in facts.signs:
        return
    if tensor is not None and tensor.dtype != "float32":
        return
    if (tensor is not None and tensor.dtype is None) or not is_of_a_batch(facts):
        return
    yield Proposal(
        "compute in half precision",
        "activations then take 2 bytes an element instead of 4; weights stay float32",
        "code",
        'keras.mixed_precision.set_global_policy("mixed_float16")   # bfloat16 on newer cards',
    )
