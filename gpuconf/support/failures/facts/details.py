"""Details from a cause's lines: libraries, versions, Xids, matrices, a batch size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypedDict, cast

from gpuconf.support.failures import full_disk
from gpuconf.support.failures.facts.tables import table_of


class Details(TypedDict, total=False):
    """Details found in the lines of the cause; absent if not found."""

    missing_libraries: list[str]
    """The files that could not be loaded."""
    xid: list[int]
    """The Xid numbers in the driver's messages."""
    loaded_cudnn: str
    """The cuDNN version that was loaded."""
    compiled_cudnn: str
    """The cuDNN version that the framework was compiled with."""
    kernel_driver: str
    """The version of the kernel driver."""
    library_driver: str
    """The version of the driver's library."""
    minimum_capability: str
    """The lowest compute capability that this build supports."""
    operation: str
    """The operation that runs only on a GPU."""
    multiprocessors: str
    """The number of multiprocessors on the GPU that TensorFlow ignores."""
    status: str
    """The status of CUDA, cuDNN or cuBLAS, for example CUDA_ERROR_OUT_OF_MEMORY."""
    matrices: str
    """The sizes of the multiplied matrices: m, n, k."""
    event: str
    """The driver's text for an Xid."""
    torch_allocated: str
    """The memory that PyTorch had allocated, in PyTorch's size format."""
    torch_reserved: str
    """The memory that PyTorch had reserved, in PyTorch's size format."""
    torch_unallocated: str
    """The memory that PyTorch had reserved but not allocated, in PyTorch's size format."""
    torch_limit: str
    """The process's limit if a memory fraction was set, in PyTorch's size format."""
    torch_process: str
    """The memory of the whole PyTorch process, in PyTorch's size format."""
    torch_cached: str
    """The memory that PyTorch before 1.4 had reserved but not allocated, in its size format."""
    torch_hint: str
    """The setting that PyTorch's message suggests; it indicates PyTorch's version."""
    program_total: str
    """The total memory of the program that XLA compiled, in XLA's size format."""
    pool_limit: str
    """The limit of CuPy's memory pool."""
    card_lost: str
    """The phrase that shows that the GPU or its memory is failing."""
    needed_by_library: str
    """The missing library that a library needs which was found."""
    map_location: str
    """PyTorch's phrase about a file that was saved on a GPU."""
    signal: str
    """The signal that ended a data loader worker."""
    free_for_handle: str
    """What was free on the GPU when cuDNN's handle could not be created."""
    driver_too_old: str
    """The driver version, which may be too old."""
    versions_differ: str
    """The phrase that shows that the parts of the driver have different versions."""
    shared_memory: str
    """The phrase that mentions shared memory."""
    container: str
    """The container runtime's phrase about the GPU."""
    device_refused: str
    """The phrase with which CUDA refused the device."""
    assertion: str
    """The assertion that failed in a kernel, or CUDA's words for one that is not shown."""
    paging_file: str
    """The error of Windows for a paging file that is too small, 1455, or PyTorch's words for it."""
    cpu_build: str
    """The phrase that shows that the framework was built without CUDA."""
    hidden_by: str
    """The CUDA_VISIBLE_DEVICES setting that hides the GPUs."""
    allocator_requested: str
    """The value of TF_GPU_ALLOCATOR."""
    freed_twice: str
    """The check in TensorFlow's allocator that fails after a refusal in a step of XLA."""
    vgpu_limit: str
    """The bytes that HAMi allows a container on the GPU."""
    gpuconf_profile: str
    """The profile of gpuconf that set the process's limit."""
    still_free: str
    """What was free on the GPU when that limit refused memory."""
    gpuconf_hint: str
    """The hint in gpuconf's own shortage error."""
    fft: str
    """cuFFT, if it is the library that ran out of memory."""
    outdated_library: str
    """The library of CUDA that JAX finds too old."""
    undefined_symbol: str
    """The symbol that an older library of CUDA, found first, does not have."""
    device_file: str
    """The driver's device file that does not exist."""
    unknown_error: str
    """PyTorch's phrase for CUDA_ERROR_UNKNOWN."""
    half_type: str
    """The type that the GPU's compute capability lacks."""
    cuda_build: str
    """The phrase for a first call of CUDA, which a build for the CPU does not make."""
    newest_capability: str
    """A compute capability that few wheels have code for yet."""
    plugin_differs: str
    """JAX's phrase for a plugin of another version."""
    cache_short: str
    """vLLM's phrase for a cache that has no room for one context."""
    cache_tokens: str
    """The tokens for which vLLM's cache has room."""
    batch_component: str
    """TensorFlow's phrase for a batch that the host's RAM has no room for."""
    redistributable: str
    """Microsoft's library, where PyTorch misses it."""
    server_share: str
    """What vLLM found free on the GPU, and what the GPU has, in GiB."""
    slurm_step: str
    """The job step that Slurm killed."""
    full_folder: str
    """The folder where a file could not be written because the disk is full."""
    unwritten: str
    """The kind of file that could not be written there: temporary files, checkpoint, data set,
    events, packages or cache.
    """


_OF_DISKS = ("full_folder", "unwritten")  # as `full_disk` returns them
# In a line of code, and in what Keras 3 says of a layer's inputs: its first dimension.
_BATCH = re.compile(
    r"\bbatch_size\s{0,9}=\s{0,9}(\d{1,7})\b"
    r"|\binputs=\w{1,9}\.Tensor\(shape=(?:torch\.Size\()?[(\[](\d{1,7}), "
)


class DetailPatterns(NamedTuple):
    """The content of details.yaml."""

    lists: Mapping[str, re.Pattern[str]]
    singles: Mapping[str, Sequence[re.Pattern[str]]]


@cache
def detail_patterns() -> DetailPatterns:
    """The regular expressions of each small fact."""
    table = table_of("details.yaml")
    return DetailPatterns(
        {name: re.compile(text) for name, text in table["lists"].items()},
        {name: tuple(map(re.compile, texts)) for name, texts in table["singles"].items()},
    )


def details_in(texts: Iterable[str]) -> Details:
    """The facts in these texts, by name; a list contains each entry only once."""
    found: dict[str, object] = {}
    whole = list(texts)
    for name, pattern in detail_patterns().lists.items():
        entries = list(dict.fromkeys(each for text in whole for each in pattern.findall(text)))
        if entries:
            found[name] = [int(each) for each in entries] if name == "xid" else entries
    for name, patterns in detail_patterns().singles.items():
        hits = (pattern.search(text) for pattern in patterns for text in whole)
        match = next(filter(None, hits), None)
        if match is not None:
            found[name] = match[1].rstrip(".")
    full = full_disk.unwritten_in(whole)
    if full is not None:
        found.update(zip(_OF_DISKS, full, strict=True))
    return cast(Details, {name: fact for name, fact in found.items() if fact is not None})


def batch_size_in(texts: Iterable[str]) -> int | None:
    """The ``batch_size=`` in a traceback's code; None if there is none."""
    for text in texts:
        found = _BATCH.search(text)
        if found is not None:
            return int(found[1] or found[2])
    return None
