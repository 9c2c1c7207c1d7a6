"""The computer's own memory."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.diagnosis.diagnosis import Facts, Proposal


def for_host(facts: Facts) -> Iterator[Proposal]:
    """Stream, hold smaller numbers, or ask for more."""
    if "paging_file" in facts.details:
        yield Proposal(
            "enlarge Windows' paging file, or load with fewer workers",
            "each worker of a data loader reserves memory for the libraries that it loads",
            "command",
            "SystemPropertiesPerformance.exe   # Advanced, Virtual memory",
        )
        return
    if "shared_memory" in facts.details:
        yield Proposal(
            "give the container more shared memory",
            "data loaders pass batches through /dev/shm, of which Docker gives 64 MB",
            "command",
            "docker run --shm-size=8g --gpus all IMAGE",
        )
        yield Proposal(
            "or load in the process itself",
            "without workers nothing goes through shared memory",
            "code",
            "loader = DataLoader(dataset, batch_size=batch_size, num_workers=0)",
        )
        return
    told = " ".join([facts.exception or "", str(facts.details.get("slurm_step", ""))])
    tensor = facts.request.tensor
    yield Proposal(
        "read the data batch by batch from its files",
        "settings of the GPU do not help here: it is the computer's memory that is used up",
        "code",
        'data = keras.utils.image_dataset_from_directory("images", batch_size=32)',
    )
    if tensor is not None and tensor.dtype in ("float64", "float32", "int64"):
        smaller = (
            "uint8"
            if tensor.dtype == "int64"
            else "float32"
            if tensor.dtype == "float64"
            else "uint8"
        )
        yield Proposal(
            f"hold the array as {smaller}",
            f"{tensor.dtype} takes {_times(tensor.dtype, smaller)} times as much; scale images "
            "in the batch, not in the array",
            "code",
            f"x = x.astype('{smaller}')",
        )
    if "slurm_step" in facts.details or "slurm" in told.lower():
        yield Proposal(
            "ask the scheduler for more memory",
            "the job was killed for using more than it had asked for",
            "command",
            "sbatch --mem=64G job.sh",
        )
    else:
        yield Proposal(
            "see what uses the memory",
            "the kernel's log names the process that was killed and its size",
            "command",
            "free -h; sudo dmesg | grep -i 'killed process'",
        )


def _times(dtype: str, smaller: str) -> int:
    sizes = {"float64": 8, "int64": 8, "float32": 4, "uint8": 1}
    return sizes[dtype] // sizes[smaller]
