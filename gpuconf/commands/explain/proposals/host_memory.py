"""The host's RAM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.batches import WHOLE_DATA_SET, fitting_batch
from gpuconf.commands.explain.proposals.files import from_files, is_no_picture
from gpuconf.support.failures.reading import LogFacts

# A smaller dtype for an array, and the factor that it saves.
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
# Calls that make one array from many.
_ARRAYS = re.compile(r"\bnp\.|numpy|\.toarray\(|\barray\(|imread|load_img")
_FEWER_WORKERS = Proposal(
    "hold fewer batches at once: fewer workers, and none in a list",
    "each worker holds its own copy of the data set and its batches; a list of all batches holds "
    "all of them",
    "code",
    "loader = DataLoader(dataset, batch_size=batch_size, num_workers=0)\n"
    "for batch in loader:   # not: batches = [batch for batch in loader]\n    step(batch)",
)
_ARRAY_IN_PARTS = Proposal(
    "use a smaller dtype, and keep the array in a file (memmap)",
    "NumPy makes float64 unless it is given another type: float32 is half of it, uint8, which "
    "pictures are, an eighth; a memmap is read in parts",
    "code",
    "import numpy as np\n"
    'x = np.lib.format.open_memmap("x.npy", mode="w+", dtype=np.float32, shape=shape)',
)
_WHY_NO_GPU = Proposal(
    "check whether a GPU is used at all",
    "without one, the whole network is computed in host memory",
    "command",
    "gpuconf doctor",
)
_LESS_AT_ONCE = Proposal(
    "read the data in parts, or with fewer threads and shorter queues",
    "watch what grows while the program runs; the batch on the card is not what "
    "fills the computer's memory",
    "command",
    "watch -n 5 free -h",
)
_LESS_WORDS = Proposal(
    "load fewer word vectors",
    "3 million vectors of 300 float32 are 3.4 GiB, and twice that while they are converted",
    "code",
    "vectors = torchtext.vocab.GloVe(max_vectors=400_000)   # gensim: limit=400_000",
)
_WHO_USES_IT = Proposal(
    "see what uses the memory",
    "the kernel's log names the process that was killed and its size",
    "command",
    "free -h; sudo dmesg | grep -i 'killed process'",
)


def for_host(facts: LogFacts) -> Iterator[Proposal]:
    """Stream the data, use a smaller dtype, or request more memory."""
    if "paging_file" in facts.details:
        yield _PAGING_FILE
        return
    if "shared_memory" in facts.details:
        yield from _SHARED_MEMORY
        return
    if "signal" in facts.details or "collects-data" in facts.signs:
        yield _FEWER_WORKERS
        yield _WHO_USES_IT
        return
    fit = fitting_batch(facts) if _was_computed(facts) else None
    if fit is not None:
        yield Proposal(
            f"a batch of {fit.fits} instead of {fit.batch}",
            f"the CPU computed this, with the computer's memory; {fit.because}",
            "batch",
            f"batch_size = {fit.fits}",
        )
        yield _WHY_NO_GPU
    of_torch = facts.framework == "torch" and "word-vectors" not in facts.signs
    if _is_an_array(facts) and facts.request.tensor is None and not of_torch:
        yield _ARRAY_IN_PARTS
    if _is_an_array(facts) or of_torch:
        yield from from_files(facts)
        yield from _smaller_numbers(facts)
    of_slurm = "slurm_step" in facts.details or "slurm" in (facts.exception or "").lower()
    yield _ASK_FOR_MORE if of_slurm else _WHO_USES_IT
    if not _is_an_array(facts):
        yield _LESS_WORDS if "word-vectors" in facts.signs else _LESS_AT_ONCE


def _was_computed(facts: LogFacts) -> bool:
    """Whether the failed tensor is a batch computed by TensorFlow, not an array of all data."""
    batch = facts.request.likely_batch
    on_host = (facts.request.device or "").startswith("CPU")
    return on_host and batch is not None and batch < WHOLE_DATA_SET


def _is_an_array(facts: LogFacts) -> bool:
    """Whether the log shows that an array failed: its shape, or a line that creates one."""
    code = facts.user_code.code if facts.user_code is not None else None
    is_one = facts.request.tensor is not None or "numpy" in facts.signs
    return is_one or _ARRAYS.search(code or "") is not None


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
