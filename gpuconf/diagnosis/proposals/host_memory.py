"""The host's RAM."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.diagnosis.diagnosis import Proposal
from gpuconf.diagnosis.proposals.files import from_files, is_no_picture
from gpuconf.messages.reading import LogFacts

# What an array may be held as instead, and how many times less that takes.
_SMALLER = {"float64": ("float32", 2), "float32": ("uint8", 4), "int64": ("uint8", 8)}

_PAGING_FILE = Proposal(
    "enlarge Windows' paging file, or load with fewer workers",
    "each worker of a data loader reserves memory for the libraries that it loads",
    "command",
    "SystemPropertiesPerformance.exe   # Advanced, Virtual memory",
)
_SHARED_MEMORY = (
    Proposal(
        "give the container more shared memory",
        "data loaders pass batches through /dev/shm, of which Docker gives 64 MB",
        "command",
        "docker run --shm-size=8g --gpus all IMAGE",
    ),
    Proposal(
        "or load in the process itself",
        "without workers nothing goes through shared memory",
        "code",
        "loader = DataLoader(dataset, batch_size=batch_size, num_workers=0)",
    ),
)
_ASK_FOR_MORE = Proposal(
    "ask the scheduler for more memory",
    "the job was killed for using more than it had asked for",
    "command",
    "sbatch --mem=64G job.sh",
)
_WHO_USES_IT = Proposal(
    "see what uses the memory",
    "the kernel's log names the process that was killed and its size",
    "command",
    "free -h; sudo dmesg | grep -i 'killed process'",
)


def for_host(facts: LogFacts) -> Iterator[Proposal]:
    """Stream, hold smaller numbers, or ask for more."""
    if "paging_file" in facts.details:
        yield _PAGING_FILE
        return
    if "shared_memory" in facts.details:
        yield from _SHARED_MEMORY
        return
    yield from from_files(facts)
    yield from _smaller_numbers(facts)
    of_slurm = "slurm_step" in facts.details or "slurm" in (facts.exception or "").lower()
    yield _ASK_FOR_MORE if of_slurm else _WHO_USES_IT


def _smaller_numbers(facts: LogFacts) -> Iterator[Proposal]:
    tensor = facts.request.tensor
    dtype = tensor.dtype if tensor is not None else None
    if dtype not in _SMALLER or (dtype == "float32" and is_no_picture(facts)):
        return
    smaller, times = _SMALLER[dtype]
    yield Proposal(
        f"hold the array as {smaller}",
        f"{dtype} takes {times} times as much; where the array is made, not afterwards, and images "
        "unscaled: keras.layers.Rescaling(1 / 255) is for the batch",
        "code",
        f"import numpy as np\nx = np.array(images, dtype='{smaller}')",
    )
