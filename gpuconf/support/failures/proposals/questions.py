"""What the conditions in ``changes/*.yaml`` can ask about a log's facts, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from gpuconf.basics.units import GIB, MIB
from gpuconf.support.failures.facts.tensor import MemoryRequest, is_of_boxes
from gpuconf.support.failures.proposals import calls, memory, stack
from gpuconf.support.failures.proposals.batches import (
    batch_of,
    fitting_batch,
    is_computed_on_host,
    is_of_a_batch,
)
from gpuconf.support.failures.proposals.figures import SMALLER_DTYPES, known_xids_of
from gpuconf.support.failures.proposals.libraries import (
    missing_libraries,
    needed_by_another,
    wanted_libraries,
)
from gpuconf.support.failures.proposals.torch_figures import (
    MUCH_UNUSED,
    figures_of,
    is_beyond_the_card,
    is_fragmented,
    others_are_in_the_way,
    server_has_room,
    was_free,
)
from gpuconf.support.failures.reading import LogFacts

_Question = Callable[[LogFacts], bool]

# Saving a model; saving NumPy arrays is not a checkpoint.
_SAVES = re.compile(r"(?<!\bnp)(?<!\bnumpy)\.(?:save|export)|Checkpoint|Backup")
# Calls that make one array from many.
_ARRAYS = re.compile(r"\bnp\.|numpy|\.toarray\(|\barray\(|imread|load_img")
# Requests this small fail only on a full GPU.
_VERY_LITTLE, _LITTLE = 4 * MIB, 32 * MIB
# TensorFlow does not use GPUs with less than 1 GiB; no program takes less than this on purpose.
_MINUTE_LIMIT = 256 * MIB
# More than most GPUs have.
_MUCH = 24 * GIB
# jax.vmap computes all calls at the same time; arrays above this size should be split.
_MUCH_OF_VMAP = 16 * GIB
# An array so small fails only where the host's RAM is full of other things.
_SMALL_ARRAY = 256 * MIB
# If a program of PyTorch holds less of the GPU than this, its batch is not the problem.
_SMALL_SHARE, _PART_OF_OTHERS = 0.3, 0.15
# If it holds so many times the GPU's memory, a limit does not make it fit.
_SEVERAL = 2
# Since this major compute capability, builds leave out GPUs from below rather than from above.
_NEW_CAPABILITY = 7

VALUES: dict[str, Callable[[LogFacts], Collection[str | None] | str]] = {
    "detail": lambda facts: facts.details,
    "sign": lambda facts: facts.signs,
    "framework": lambda facts: (facts.framework or "none",),
    "code": stack.code_of,
    "keras-call": lambda facts: (calls.keras_call(facts),),
    "our-call": lambda facts: (calls.our_call(facts),),
    "status": lambda facts: (facts.details.get("status"),),
    "unwritten": lambda facts: (str(facts.details.get("unwritten")),),
}


def _says(*words: str) -> _Question:
    """Whether the exception contains one of the words, ignoring case."""
    return lambda facts: any(word in (facts.exception or "").lower() for word in words)


def _is_no_picture(facts: LogFacts) -> bool:
    """Whether the failed array is known to be a list or a table of numbers."""
    tensor = facts.request.tensor
    return tensor is not None and len(tensor.shape) <= 2


def _is_array(facts: LogFacts) -> bool:
    """Whether the log shows that an array failed: its shape, or a line that creates one."""
    is_one = facts.request.tensor is not None or "numpy" in facts.signs
    if is_computed_on_host(facts):
        return False
    return is_one or _ARRAYS.search(stack.code_of(facts)) is not None


def _has_smaller_dtype(facts: LogFacts) -> bool:
    tensor = facts.request.tensor
    dtype = tensor.dtype if tensor is not None else None
    return dtype in SMALLER_DTYPES and not (dtype == "float32" and _is_no_picture(facts))


def _is_in_a_notebook(facts: LogFacts) -> bool:
    file = facts.user_code.file if facts.user_code is not None else ""
    return "ipython-input" in file or "ipykernel" in file or file.startswith(("Cell", "In"))


def _half_precision_helps(facts: LogFacts) -> bool:
    tensor = facts.request.tensor
    if stack.is_before_policies(facts) or not calls.is_keras(facts) or "xgboost" in facts.signs:
        return False
    return (tensor is None or tensor.dtype == "float32") and is_of_a_batch(facts)


def _accumulates(facts: LogFacts) -> bool:
    """Whether Keras could train with the same effective batch in parts."""
    is_fit = calls.keras_call(facts) == "fit"
    return is_fit and not stack.is_old_stack(facts) and batch_of(facts) != 1


def _is_about_memory(facts: LogFacts) -> bool:
    status = str(facts.details.get("status", "ALLOC"))
    return any(word in status for word in ("ALLOC", "NOT_INITIALIZED", "INTERNAL"))


def _capability(facts: LogFacts) -> int | None:
    capability = facts.card.compute_capability if facts.card is not None else None
    return int(capability.split(".")[0]) if capability else None


def _is_before_2_5(facts: LogFacts) -> bool:
    version = stack.tensorflow_version(facts)
    return version is not None and version < (2, 5)


def _much_is_unused(facts: LogFacts) -> bool:
    figures = figures_of(facts)
    if not figures.held or figures.unused is None:
        return False
    return figures.unused > MUCH_UNUSED * figures.held


def _has_torch_figures(facts: LogFacts) -> bool:
    figures = figures_of(facts)
    return None not in (figures.held, figures.total, figures.asked)


def _is_larger_than_torchs_card(facts: LogFacts) -> bool:
    figures = figures_of(facts)
    return figures.total is not None and (figures.asked or 0) > figures.total


def _torch_holds_much(facts: LogFacts) -> bool:
    figures = figures_of(facts)
    return (figures.held or 0) > _SMALL_SHARE * (figures.total or 0)


def _others_hold_a_part(facts: LogFacts) -> bool:
    figures = figures_of(facts)
    return (figures.others or 0) > _PART_OF_OTHERS * (figures.total or 0)


QUESTIONS: dict[str, _Question] = {
    # The program and its stack.
    "windows": lambda facts: facts.on_windows,
    "notebook": _is_in_a_notebook,
    "needs-run": stack.needs_run,
    "gpuconf-serves": stack.gpuconf_serves,
    "keras": calls.is_keras,
    "only-infers": calls.only_infers,
    "of-torch": lambda facts: facts.framework not in ("tensorflow", "jax"),
    "tensorflow-1": stack.is_version_1,
    "tensorflow-version": lambda facts: stack.tensorflow_version(facts) is not None,
    "before-2.5": _is_before_2_5,
    "old-build": stack.is_old_build,
    "torch-2.1": stack.is_torch_since_2_1,
    "slurm": lambda facts: "slurm_step" in facts.details or _says("slurm")(facts),
    "saves-a-model": lambda facts: (
        facts.details.get("unwritten") == "checkpoint"
        or _SAVES.search(stack.code_of(facts)) is not None
    ),
    # The request and its batch.
    "nothing-known": lambda facts: facts.request == MemoryRequest() and facts.batch_size != 1,
    "size-asked": lambda facts: facts.request.size_bytes is not None,
    "shape": lambda facts: facts.request.tensor is not None,
    "batch-fits": lambda facts: fitting_batch(facts) is not None,
    "of-a-batch": calls.is_of_unknown_batch,
    "batch-of-one": lambda facts: facts.batch_size == 1,
    "whole-data-set": calls.is_whole_data_set,
    "of-boxes": lambda facts: is_of_boxes(facts.request.node or ""),
    "one-sample": memory.is_one_sample,
    "large-weights": memory.are_large_weights,
    "one-is-huge": memory.one_is_huge,
    "half-precision": _half_precision_helps,
    "computed-on-host": is_computed_on_host,
    "accumulates": _accumulates,
    "array": _is_array,
    "no-picture": _is_no_picture,
    "smaller-dtype": _has_smaller_dtype,
    # The GPU, and who holds it.
    "little-is-free": memory.little_is_free,
    "nearly-none-is-free": memory.nearly_none_is_free,
    "handle-had-room": memory.handle_had_room,
    "siblings": memory.are_siblings,
    "others-hold-much": memory.others_hold_much,
    "was-free": memory.was_free,
    "larger-than-the-card": memory.is_larger_than_the_card,
    "our-limit-refused": memory.our_limit_refused,
    "limit-is-low": memory.limit_is_low,
    "limit-is-the-wall": memory.limit_is_the_wall,
    # Others must have held the GPU when TensorFlow took its limit; below the second, no batch fits.
    "limit-is-tiny": lambda facts: memory.limit_is_below(GIB, facts),
    "limit-is-minute": lambda facts: memory.limit_is_below(_MINUTE_LIMIT, facts),
    "very-little-asked": lambda facts: memory.asked_less_than(_VERY_LITTLE, facts),
    "array-is-small": lambda facts: (memory.asked_bytes(facts) or _SMALL_ARRAY) < _SMALL_ARRAY,
    "little-asked": lambda facts: memory.asked_less_than(_LITTLE, facts),
    "copy-refused": _says("dst tensor"),
    "little-for-jax": memory.little_was_asked_for_jax,
    "array-is-huge": lambda facts: (
        (memory.asked_bytes(facts) or 0) > (_MUCH_OF_VMAP if "vmap" in facts.signs else _MUCH)
    ),
    # If CUDA refused, the request was JAX's preallocation, its share of the GPU.
    "preallocation-refused": lambda facts: (
        facts.details.get("status") == "CUDA_ERROR_OUT_OF_MEMORY"
    ),
    # PyTorch's figures.
    "torch-asked": lambda facts: figures_of(facts).asked is not None,
    "torch-figures": _has_torch_figures,
    "torch-larger-than-the-card": _is_larger_than_torchs_card,
    "torch-beyond-the-card": lambda facts: is_beyond_the_card(figures_of(facts)),
    # No limit helps a program that needs several GPUs' memory.
    "torch-far-beyond": lambda facts: (
        (figures_of(facts).held or 0) > _SEVERAL * (figures_of(facts).total or 0)
    ),
    "torch-fragmented": lambda facts: is_fragmented(figures_of(facts)),
    "torch-was-free": lambda facts: was_free(figures_of(facts)),
    "others-in-the-way": lambda facts: others_are_in_the_way(figures_of(facts)),
    "torch-holds-much": _torch_holds_much,
    "others-hold-a-part": _others_hold_a_part,
    "much-is-unused": _much_is_unused,
    "split-is-the-hint": lambda facts: facts.details.get("torch_hint") == "max_split_size_mb",
    "server-has-room": server_has_room,
    # CUDA refused, not PyTorch's allocator: usually the GPU was already full.
    "cuda-refused": _says("error: out of memory"),
    "torch-refused": _says("cuda out of memory", "outofmemoryerror"),
    # The thread that pins batches raised first, in its own traceback.
    "pin-thread-ended": _says("pin memory thread exited"),
    # Libraries, driver and faults.
    "memory-status": _is_about_memory,
    "gpu-busy": lambda facts: (
        facts.details.get("status") == "CUDA_ERROR_DEVICE_UNAVAILABLE"
        or facts.details.get("device_refused") == "busy or unavailable"
    ),
    "driver-library-missing": lambda facts: any(
        name.startswith("libcuda.so") for name in missing_libraries(facts)
    ),
    "libraries-known": lambda facts: wanted_libraries(facts) is not None,
    "needed-by-another": needed_by_another,
    "old-card": lambda facts: (_capability(facts) or _NEW_CAPABILITY) < _NEW_CAPABILITY,
    "known-xid": lambda facts: bool(known_xids_of(facts)),
}
