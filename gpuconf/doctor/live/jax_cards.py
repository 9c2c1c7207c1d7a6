"""What the probe's steps need of JAX."""

from __future__ import annotations

from typing import Any


class JaxCards:
    """The imported jax; public functions of it alone."""

    title = "JAX"
    package = "jax"

    def __init__(self) -> None:
        import jax

        self._jax: Any = jax
        self._only: int | None = None
        self.version = str(jax.__version__)
        self.is_cuda_build = True  # a plugin, which the log says all of

    def count(self) -> int:
        """How many cards JAX has; this makes its backends, and a context on each.

        0 where it has fallen back to the processor, of which its log says why.
        """
        return 0 if self._jax.default_backend() == "cpu" else len(self._jax.devices("gpu"))

    def show_only(self, place: int) -> None:
        """By an option of JAX's own, which counts the visible cards."""
        self._jax.config.update("jax_cuda_visible_devices", str(place))
        self._only = place

    def make_context(self, place: int) -> None:
        """There it is; the memory comes with the first array."""
        self._device(place)

    def limit_bytes(self, place: int) -> int | None:
        """What XLA's allocator reports; the platform's own allocator reports nothing."""
        stats = self._device(place).memory_stats()
        return stats.get("bytes_limit") if stats else None

    def refuses(self, size_bytes: int, place: int) -> bool | None:  # noqa: ARG002
        """None: an array without contents needs a kernel, and one with them as much host memory."""
        return None

    def there_and_back(self, array: Any, place: int) -> Any:
        """Through ``device_put``."""
        import numpy as np

        return np.asarray(self._jax.device_put(array, self._device(place)))

    def matmul(self, left: Any, right: Any, place: int) -> Any:
        """On the card, compiled."""
        import numpy as np

        there = [self._jax.device_put(each, self._device(place)) for each in (left, right)]
        return np.asarray(there[0] @ there[1])

    def in_use(self, place: int) -> tuple[int, int]:
        """Of XLA's allocator."""
        stats = self._device(place).memory_stats()
        return stats["bytes_in_use"], stats["peak_bytes_in_use"]

    def _device(self, place: int) -> Any:
        return self._jax.devices("gpu")[0 if self._only is not None else place]
