"""What the probe's steps need of PyTorch."""

from __future__ import annotations

from typing import Any


class TorchCards:
    """The imported torch; public functions of it alone."""

    title = "PyTorch"
    package = "torch"

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self.version = str(torch.__version__)
        self.is_cuda_build = torch.version.cuda is not None

    def count(self) -> int:
        """How many cards there are."""
        return int(self._torch.cuda.device_count())

    def show_only(self, place: int) -> None:
        """Nothing: torch makes a context on the cards that are used, and on no other."""

    def make_context(self, place: int) -> None:
        """Start CUDA, and with it gpuconf's cap; the tensor's memory is given back."""
        self._torch.empty(1, device=f"cuda:{place}")
        self._torch.cuda.empty_cache()

    def limit_bytes(self, place: int) -> int | None:
        """The fraction in force, of the total that torch sees; before torch 2.4 it does not say."""
        cuda = self._torch.cuda
        if not hasattr(cuda, "get_per_process_memory_fraction"):
            return None
        total = cuda.get_device_properties(place).total_memory
        return int(cuda.get_per_process_memory_fraction(place) * total)

    def refuses(self, size_bytes: int, place: int) -> bool | None:
        """Whether torch is out of memory at this size, which it is before it asks the driver."""
        torch = self._torch
        try:
            torch.empty(size_bytes, dtype=torch.uint8, device=f"cuda:{place}")
        except torch.cuda.OutOfMemoryError:
            return True
        torch.cuda.empty_cache()
        return False

    def there_and_back(self, array: Any, place: int) -> Any:
        """Through ``to`` and ``cpu``."""
        return self._torch.from_numpy(array).to(f"cuda:{place}").cpu().numpy()

    def matmul(self, left: Any, right: Any, place: int) -> Any:
        """On the card."""
        there = [self._torch.from_numpy(each).to(f"cuda:{place}") for each in (left, right)]
        return (there[0] @ there[1]).cpu().numpy()

    def in_use(self, place: int) -> tuple[int, int]:
        """Of the caching allocator."""
        cuda = self._torch.cuda
        return cuda.memory_allocated(place), cuda.max_memory_allocated(place)
