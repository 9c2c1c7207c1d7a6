"""Details from a cause's lines: libraries, versions, Xids, matrices, a batch size."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypedDict, cast

from gpuconf.support.failures import full_disk


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
    """The hint of gpuconf's own shortage error."""
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


_LISTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("missing_libraries", re.compile(
        r"(?:Could not load dynamic library|Couldn't open CUDA library|Could not find|"
        r"Could not load library|Could not locate|ImportError:|OSError:|dlopen:|dlerror:) "
        r"'?((?:lib)?[\w.-]{1,50}?(?:\.so[.\d]{0,12}|\.dll|\.dylib))\b")),
    ("xid", re.compile(r"Xid \([^)]{1,60}\): (\d{1,3})\b")),
)  # fmt: skip
_SINGLES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("loaded_cudnn", re.compile(
        r"Loaded (?:runtime )?[Cc]u[Dd][Nn][Nn] library: (\d[\d.]{0,20}\d)")),
    ("compiled_cudnn", re.compile(r"source was compiled with:? (\d[\d.]{0,20}\d)")),
    ("kernel_driver", re.compile(r"kernel version (\d[\d.]{0,20}\d)")),
    ("library_driver", re.compile(r"DSO version (\d[\d.]{0,20}\d)")),
    ("minimum_capability", re.compile(r"minimum required Cuda capability is (\d\.\d)")),
    ("operation", re.compile(r"a simulated GPU cannot compute (\w{1,80})")),
    ("operation", re.compile(
        r"\b(\w{1,40})(?: [oO]p)?(?: is)?(?: currently)? only supports? "
        r".{0,50}?(?:(?:on|for) (?:the |device type )?CPU\b|\bNHWC\b)")),
    ("multiprocessors", re.compile(r"with (?:Cuda )?(?:core|multiprocessor) count: (\d{1,9})\b")),
    ("status", re.compile(r"\b(CU(?:DNN|BLAS|SOLVER|SPARSE)_STATUS_\w{1,60}|CUDA_ERROR_\w{1,60})")),
    ("matrices", re.compile(r"(m=\d{1,19}, n=\d{1,19}, k=\d{1,19})")),
    ("event", re.compile(
        r"Xid [^:]{1,60}:\d\d\)?: \d{1,3}, (?:pid=[^\s,]{1,60}, )?(?:name=[^\s,]{1,60}, )?"
        r"(.{1,120})")),
    ("torch_allocated", re.compile(
        r"(\d[\d.]{0,20} [KMG]iB) (?:is allocated by PyTorch|already allocated)")),
    ("torch_reserved", re.compile(r"(\d[\d.]{0,20} [KMG]iB) reserved in total by PyTorch")),
    ("torch_unallocated", re.compile(
        r"(\d[\d.]{0,20} [KMG]iB) is reserved by PyTorch but unallocated")),
    ("torch_limit", re.compile(r"(\d[\d.]{0,20} [KMG]iB) allowed")),
    ("torch_process", re.compile(r"this process has (\d[\d.]{0,20} [KMG]iB) memory in use")),
    ("torch_cached", re.compile(r"free; (\d[\d.]{0,20} [KMG]iB) cached")),
    ("torch_hint", re.compile(r"[Tt]ry setting .{0,60}(max_split_size_mb|expandable_segments)")),
    ("program_total", re.compile(r"total allocation: {1,9}(\d[\d.]{0,20}[KMGT]iB)")),
    ("pool_limit", re.compile(r"limit set to: (\d[\d,]{0,25}) bytes")),
    ("card_lost", re.compile(
        r"((?:[Uu]ncorrectable ECC error|ECC_UNCORRECTABLE|fallen off the bus|GPU is lost"
        r"|Unable to determine the device handle|GPU requires reset|RmInitAdapter failed))")),
    ("needed_by_library", re.compile(
        r"dynamic library '[^']{1,60}'; dlerror: (lib[\w.-]{1,60}?\.so[.\d]{0,12}): cannot open")),
    ("map_location", re.compile(r"(deserialize object on a CUDA device)")),
    ("signal", re.compile(r"killed by signal: (\w{1,20})")),
    ("free_for_handle", re.compile(r"Memory usage: (\d{1,16} bytes) free")),
    ("driver_too_old", re.compile(r"insufficient driver version: ?(\d[\d.]{0,20}\d)")),
    ("versions_differ", re.compile(
        r"((?:[Dd]river/library version mismatch|API mismatch|does not match DSO version))")),
    ("shared_memory", re.compile(r"(shared memory|\bshm\b|</torch_)")),
    ("container", re.compile(r"(could not select device driver|nvidia-container-cli)")),
    ("device_refused", re.compile(r"(invalid device ordinal|busy or unavailable)")),
    ("assertion", re.compile(r"Assertion [`']?(.{1,200}?)[`']? failed")),
    ("assertion", re.compile(r"(device-side assert)")),
    ("paging_file", re.compile(r"(\b1455\b|DefaultCPUAllocator: not enough memory)")),
    ("cpu_build", re.compile(
        r"(CUDA-enabled jaxlib is not installed|not compiled with CUDA"
        r"|no attribute 'GpuAllocatorConfig'|GPU Tree Learner was not enabled)")),
    ("hidden_by", re.compile(r"(CUDA_VISIBLE_DEVICES is set to (?:-1|''|\"\"))")),
    ("allocator_requested", re.compile(r"TF_GPU_ALLOCATOR=(\w{1,60}) isn't currently supported")),
    ("freed_twice", re.compile(r"Check failed: (c->in_use\(\)|h != kInvalidChunkHandle)")),
    ("vgpu_limit", re.compile(r"Device \d{1,3} OOM \d{1,19} / (\d{1,19})")),
    ("gpuconf_profile", re.compile(
        r"limit of this process on .{1,160} is \d{1,9} MiB \(profile ([^)\s]{1,80})\)")),
    ("still_free", re.compile(
        r"\(profile [^)\s]{1,80}\); (\d{1,9} MiB) of the GPU(?: are|'s memory is) free")),
    ("gpuconf_hint", re.compile(r"\n  hint: (.{1,320})")),
    ("fft", re.compile(r"(cuFFT|CUFFT|cufft)")),
    ("outdated_library", re.compile(r"Outdated (\w{1,20}) installation found")),
    ("undefined_symbol", re.compile(
        r"(?:undefined|\.so:) symbol:? "
        r"(_{0,2}(?:nvJit|nvrtc|cublas|cusparse|cusolver|nccl)\w{1,60})")),
    ("device_file", re.compile(r"(/dev/nvidia\d{1,3}) does not exist")),
    ("unknown_error", re.compile(r"(CUDA unknown error)")),
    ("half_type", re.compile(r"(?i)(bfloat16) is only supported on GPUs with compute capability")),
    ("cuda_build", re.compile(
        r"(failed call to cuInit|\bcuInit\(0\) failed|jax_plugins.xla_cuda)")),
    ("newest_capability", re.compile(r"compute capability (1[12]\.\d)")),
    ("plugin_differs", re.compile(r"(Jax plugin configuration error)")),
    ("cache_short", re.compile(r"(No available memory for the cache blocks|stored in KV cache)")),
    ("cache_tokens", re.compile(r"stored in KV cache \((\d{1,9})\)")),
    ("batch_component", re.compile(r"(allocate memory for the batch of component)")),
    ("redistributable", re.compile(r"(Visual C\+\+ Redistributable) is not installed")),
    ("server_share", re.compile(
        r"Free memory on device \S{0,12} ?\((\d[\d.]{0,9}/\d[\d.]{0,9}) GiB\)")),
    ("slurm_step", re.compile(r"StepId=(\S{1,40})\.? ")),
)  # fmt: skip
_OF_DISKS = ("full_folder", "unwritten")  # as `full_disk` returns them
# In a line of code, and in what Keras 3 says of a layer's inputs: its first dimension.
_BATCH = re.compile(
    r"\bbatch_size\s{0,9}=\s{0,9}(\d{1,7})\b"
    r"|\binputs=\w{1,9}\.Tensor\(shape=(?:torch\.Size\()?[(\[](\d{1,7}), "
)


def details_in(texts: Iterable[str]) -> Details:
    """The facts in these texts, by name; a list contains each entry only once."""
    found: dict[str, object] = {}
    whole = list(texts)
    for name, pattern in _LISTS:
        entries = list(dict.fromkeys(each for text in whole for each in pattern.findall(text)))
        if entries:
            found[name] = [int(each) for each in entries] if name == "xid" else entries
    for name, pattern in _SINGLES:
        match = next((hit for text in whole if (hit := pattern.search(text))), None)
        if match is not None and name not in found:
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
