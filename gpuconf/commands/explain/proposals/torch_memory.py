"""PyTorch's memory: its message has all figures, and they rank the proposals.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.basics.units import sized
from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.batches import fitting_batch
from gpuconf.commands.explain.proposals.torch_figures import (
    MUCH_UNUSED,
    TorchFigures,
    figures_of,
    is_fragmented,
    others_are_in_the_way,
    was_free,
)
from gpuconf.commands.explain.proposals.wording import HALF_THE_BATCH, SEE_OTHERS, known_version
from gpuconf.support.failures.reading import LogFacts

# If the program holds less of the card than this, its batch is not the problem.
_SMALL_SHARE = 0.3

_ACCUMULATE = Proposal(
    "accumulate gradients over smaller batches",
    "the same step with a fraction of the activations",
    "code",
    "(loss / parts).backward()          # for each of the parts of a batch\n"
    "optimizer.step(); optimizer.zero_grad()   # after all of them",
)
_ANOTHER_CARD = Proposal(
    "or take another card, where there is one",
    "the process then sees that card alone",
    "command",
    "nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv\n"
    "CUDA_VISIBLE_DEVICES=1 python train.py",
)
_NO_GRADIENTS = Proposal(
    "run the model without gradients",
    "without this each call keeps its activations for a backward pass that never comes, and memory "
    "grows from call to call; move results to the host before keeping them",
    "code",
    "with torch.inference_mode():\n    output = model(inputs).cpu()",
)
_SMALLER_INPUT = Proposal(
    "a smaller input at a time: fewer samples, a lower resolution, a shorter sequence, or tiles",
    "without gradients the memory grows with what one call is given",
    "batch",
    "batch_size = 1",
)
_HALF_WEIGHTS = Proposal(
    "load the model in half precision, or quantized",
    "the weights fill the card, so no batch is small enough; half precision halves them",
    "code",
    "model = Model.from_pretrained(name, torch_dtype=torch.float16)   # or model.half()",
)
_OFFLOAD = Proposal(
    "or keep part of the model in the computer's memory",
    "layers are copied to the card when they are needed, which is slower; else a smaller model or "
    "a larger card",
    "code",
    'model = Model.from_pretrained(name, device_map="auto")   # accelerate; diffusers: '
    "enable_model_cpu_offload()",
)
_LOW_MEMORY = Proposal(
    "start the program in its mode for small cards",
    "the model's parts then take turns on the card: diffusers has enable_model_cpu_offload(), web "
    "interfaces a flag",
    "command",
    "python launch.py --medvram   # or --lowvram",
)
SMALLER_SERVER = Proposal(
    "give the server less of the card, or a shorter context",
    "vLLM takes that share for weights and cache in advance; what else runs on the card, another "
    "stage or server, must fit beside it",
    "command",
    "vllm serve MODEL --gpu-memory-utilization 0.8 --max-model-len 4096",
)


_MORE_CACHE = Proposal(
    "a shorter context, or more of the card for the server's cache",
    "beside the weights too little is left for the cache of one whole context",
    "command",
    "vllm serve MODEL --max-model-len 4096 --gpu-memory-utilization 0.95",
)


def for_torch(facts: LogFacts) -> Iterator[Proposal]:
    """A limit, other processes, fragmentation, unneeded gradients, weights; otherwise the batch."""
    figures = figures_of(facts)
    if "cache blocks" in (facts.exception or "") or "KV cache" in (facts.exception or ""):
        yield _MORE_CACHE
        return
    if figures.asked is None and _is_cudas_own(facts):
        yield SEE_OTHERS
    if "torch_limit" in facts.details:
        yield _higher_limit(facts)
    if figures.total is not None and (figures.asked or 0) > figures.total:
        yield _too_large(figures)
        yield from _by_program(facts, figures)
    elif is_fragmented(figures):
        yield from _grown_segments(facts, figures)
        yield from _by_program(facts, figures)
    elif others_are_in_the_way(figures):
        yield _see_others(figures)
        yield SMALLER_SERVER if "vllm" in facts.signs else _ANOTHER_CARD
        if (figures.held or 0) > _SMALL_SHARE * (figures.total or 0):
            yield from _by_program(facts, figures)
    elif was_free(figures):
        yield from _refused_though_free(facts, figures)
    else:
        yield from _by_program(facts, figures)
        yield from _grown_segments(facts, figures)
        if figures.others and figures.others > 0.15 * (figures.total or 0):
            yield _see_others(figures)


def _too_large(figures: TorchFigures) -> Proposal:
    """A single tensor that is larger than the card."""
    asked, total = sized(figures.asked or 0), sized(figures.total or 0)
    return Proposal(
        "make the one large tensor smaller: a smaller input, or attention that is never whole",
        f"{asked} were asked for in one piece, of a card of {total}; attention grows with the "
        "square of the length or the number of pixels, and PyTorch's own fused one keeps no such "
        "tensor",
        "code",
        "out = torch.nn.functional.scaled_dot_product_attention(query, key, value)",
    )


def _is_cudas_own(facts: LogFacts) -> bool:
    """Whether CUDA refused, not PyTorch's allocator: usually the card was already full."""
    return "error: out of memory" in (facts.exception or "").lower()


def _by_program(facts: LogFacts, figures: TorchFigures) -> Iterator[Proposal]:
    """Ways to use less memory when loading a model, in inference, or in training."""
    signs = facts.signs
    trains = "trains" in signs
    if "vllm" in signs and not trains:
        yield SMALLER_SERVER
    elif "loads-a-model" in signs and not trains:
        yield _LOW_MEMORY if "diffusion" in signs else _HALF_WEIGHTS
        yield _OFFLOAD
    elif "diffusion" in signs and not trains:
        yield _SMALLER_INPUT
        yield _LOW_MEMORY
    elif "infers" in signs and not trains:
        if "without-gradients" not in signs:
            yield _NO_GRADIENTS
        yield _SMALLER_INPUT
        yield _HALF_WEIGHTS._replace(reason="weights and activations then take half as much")
    else:
        yield from _batch(facts, figures)
        if facts.batch_size != 1:
            yield _ACCUMULATE


def _batch(facts: LogFacts, figures: TorchFigures) -> Iterator[Proposal]:
    fit = fitting_batch(facts)
    if fit is not None:
        yield Proposal(
            f"a batch of {fit.fits} instead of {fit.batch}", fit.because, "batch",
            f"batch_size = {fit.fits}",
        )  # fmt: skip
    elif facts.batch_size != 1:
        held, total, asked = figures.held, figures.total, figures.asked
        if held is None or total is None or asked is None:
            yield HALF_THE_BATCH
            return
        yield HALF_THE_BATCH._replace(
            title="half the batch, or a smaller input",
            reason=f"the program itself holds {sized(held)} of {sized(total)} and asked for "
            f"{sized(asked)} more; what the layers put out grows with the batch and the input",
        )
    else:
        yield _SMALLER_INPUT._replace(paste="size = size // 2")


def _grown_segments(facts: LogFacts, figures: TorchFigures) -> Iterator[Proposal]:
    """Settings against fragmentation that this PyTorch supports, unless the log shows them set."""
    held, unused = figures.held, figures.unused
    if not held or unused is None or unused <= MUCH_UNUSED * held:
        return
    share = f"{unused / held:.0%} of what PyTorch holds is unused and fragmented"
    if _is_at_least(facts, (2, 1)):
        if "segments-set" not in facts.signs:
            yield Proposal(
                "let the allocator grow its segments",
                share,
                "command",
                "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            )
    elif facts.details.get("torch_hint") == "max_split_size_mb" and "split-set" not in facts.signs:
        yield Proposal(
            "keep the allocator from splitting large blocks",
            f"{share}; expandable_segments, which does more, is in PyTorch 2.1 and newer",
            "command",
            "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128",
        )
    if is_fragmented(figures):
        yield Proposal(
            "give back what is unused before the large step",
            "a cached block that is too short is of no use to it, and the card can join free ones",
            "code",
            "torch.cuda.empty_cache()",
        )


def _is_at_least(facts: LogFacts, wanted: tuple[int, int]) -> bool:
    """Whether PyTorch is this new: by version, or by its message, which changed in 2.1."""
    version = known_version(facts, "torch")
    if version is not None:
        return version >= wanted
    return "torch_reserved" not in facts.details and "torch_cached" not in facts.details


def _refused_though_free(facts: LogFacts, figures: TorchFigures) -> Iterator[Proposal]:
    """The memory was not free at the time of the request, or the system refused it."""
    reason = (
        f"{sized(figures.asked or 0)} were refused although {sized(figures.free or 0)} were free a "
        "moment later, so a smaller batch alone does not explain it"
    )
    yield SEE_OTHERS._replace(
        title="see what else is using the card, and stop what you don't need",
        reason=f"{reason}: another process took it in that moment, or the system had no memory "
        "left to back it",
    )
    yield Proposal(
        "see that the computer itself has memory left",
        "the driver reserves it beside the card's; on Windows enlarge the paging file",
        "command",
        "SystemPropertiesPerformance.exe   # Advanced, Virtual memory"
        if facts.on_windows or "diffusion" in facts.signs
        else "free -h",
    )


def _higher_limit(facts: LogFacts) -> Proposal:
    return Proposal(
        "raise the limit that the program sets",
        f"it may take {facts.details.get('torch_limit')} of the card; more may be free",
        "code",
        "torch.cuda.set_per_process_memory_fraction(1.0)",
    )


def _see_others(figures: TorchFigures) -> Proposal:
    held, others, total = figures.held, figures.others, figures.total
    if held is None or others is None or total is None:
        return SEE_OTHERS
    return SEE_OTHERS._replace(
        reason=f"PyTorch holds {sized(held)} of {sized(total)}, some {sized(others)} belong to "
        f"others: {SEE_OTHERS.reason}"
    )
