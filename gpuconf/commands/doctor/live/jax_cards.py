"""The probe's operations in JAX."""

from __future__ import annotations

from typing import Any


class JaxCards:
    """The imported jax; uses only its public functions."""

    title = "JAX"
    package = "jax"

    def __init__(self) -> None:
        import jax

        self._jax: Any = jax
        self._only: int | None = None
        self.version = str(jax.__version__)
        self.is_cuda_build = True  # CUDA is a plugin; the log reports its problems

    def count(self) -> int:
        """The number of JAX's GPUs; creates its backends, and a context on each.

        0 if it has fallen back to the CPU; its log explains why.
        """
        return 0 if self._jax.default_backend() == "cpu" else len(self._jax.devices("gpu"))

    def show_only(self, place: int) -> None:
        """Set JAX's own option, whose numbers refer to the visible GPUs."""
        self._jax.config.update("jax_cuda_visible_devices", str(place))
        self._only = place

    def make_context(self, place: int) -> None:
        """Nothing to create: the context exists already; memory follows with the first array."""
        self._device(place)

    def limit_bytes(self, place: int) -> int | None:
        """The limit that XLA's allocator reports; the platform allocator reports none."""
        stats = self._device(place).memory_stats()
        return stats.get("bytes_limit") if stats else None

    def refuses(self, size_bytes: int, place: int) -> bool | None:  # noqa: ARG002
        """None: an empty array needs a kernel, and one with contents needs as much host memory."""
        return None

    def there_and_back(self, array: Any, place: int) -> Any:
        """Copy with ``device_put``."""
        import numpy as np

        return np.asarray(self._jax.device_put(array, self._device(place)))

    def matmul(self, left: Any, right: Any, place: int) -> Any:
        """Compute on the GPU, compiled."""
        import numpy as np

        there = [self._jax.device_put(each, self._device(place)) for each in (left, right)]
        return np.asarray(there[0] @ there[1])

    def in_use(self, place: int) -> tuple[int, int]:
        """The figures from XLA's allocator."""
        stats = self._device(place).memory_stats()
        return stats["bytes_in_use"], stats["peak_bytes_in_use"]

    def _device(self, place: int) -> Any:
        return self._jax.devices("gpu")[0 if self._only is not None else place]
