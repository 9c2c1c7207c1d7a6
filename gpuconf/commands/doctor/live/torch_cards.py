"""The probe's operations in PyTorch."""

from __future__ import annotations

from typing import Any


class TorchCards:
    """The imported torch; uses only its public functions."""

    title = "PyTorch"
    package = "torch"

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self.version = str(torch.__version__)
        self.is_cuda_build = torch.version.cuda is not None

    def count(self) -> int:
        """The number of GPUs."""
        return int(self._torch.cuda.device_count())

    def show_only(self, place: int) -> None:
        """Do nothing: torch creates a context only on the GPUs that are used."""

    def make_context(self, place: int) -> None:
        """Start CUDA, which sets gpuconf's cap; the tensor's memory is released."""
        self._torch.empty(1, device=f"cuda:{place}")
        self._torch.cuda.empty_cache()

    def limit_bytes(self, place: int) -> int | None:
        """The memory fraction in effect, times the total that torch sees.

        None before torch 2.4, because older versions do not report the fraction.
        """
        cuda = self._torch.cuda
        if not hasattr(cuda, "get_per_process_memory_fraction"):
            return None
        total = cuda.get_device_properties(place).total_memory
        return int(cuda.get_per_process_memory_fraction(place) * total)

    def refuses(self, size_bytes: int, place: int) -> bool | None:
        """Whether torch is out of memory at this size, which it checks before asking the driver."""
        torch = self._torch
        try:
            torch.empty(size_bytes, dtype=torch.uint8, device=f"cuda:{place}")
        except torch.cuda.OutOfMemoryError:
            return True
        torch.cuda.empty_cache()
        return False

    def there_and_back(self, array: Any, place: int) -> Any:
        """Copy with ``to`` and ``cpu``."""
        return self._torch.from_numpy(array).to(f"cuda:{place}").cpu().numpy()

    def matmul(self, left: Any, right: Any, place: int) -> Any:
        """Compute on the GPU."""
        there = [self._torch.from_numpy(each).to(f"cuda:{place}") for each in (left, right)]
        return (there[0] @ there[1]).cpu().numpy()

    def in_use(self, place: int) -> tuple[int, int]:
        """The caching allocator's numbers."""
        cuda = self._torch.cuda
        return cuda.memory_allocated(place), cuda.max_memory_allocated(place)
