"""The Keras callback `MemoryUsage`: adds the GPU memory of every epoch to the logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gpuconf.callbacks.counters import Use
from gpuconf.callbacks.gauge import DeviceGauge, is_device, kind_and_number
from gpuconf.errors import UsageError
from gpuconf.support.keras_api.hooks import KerasHooks


class Estimated(Protocol):
    """An estimate with a peak, such as the MemoryEstimate of `gpuconf.commands.estimate`."""

    @property
    def peak_bytes(self) -> int:
        """The peak memory use of a step, in bytes."""


class MemoryUsage(KerasHooks):
    """Logs the GPU memory that each epoch of ``fit()`` used, in bytes, on any Keras backend.

    Put it first in ``callbacks``.  Keras passes one dict of logs to the callbacks in order, so
    those before it (CSVLogger, TensorBoard, EarlyStopping) do not see the keys that it adds:

    - ``gpu_memory_peak_bytes``: peak use during the epoch's training steps;
    - ``gpu_memory_current_bytes``: in use at the end of the epoch;
    - ``gpu_memory_pool_bytes``: reserved by PyTorch or JAX at that time, used or not;
    - ``gpu_memory_peak_estimate_bytes``: ``estimate.peak_bytes``, if an estimate was given;
    - ``val_gpu_memory_peak_bytes``: peak use during the epoch's validation, if there was one.

    The figures come from the framework's allocator and cover everything in this process except the
    CUDA context.  ``device`` is one device, such as ``GPU:0`` or ``cuda:0``; None means all GPUs.
    With several GPUs, each key ends in the GPU's number: ``gpu_memory_peak_bytes_gpu1``.

    ``last`` holds the latest figures under the same keys.  After ``evaluate()`` and ``predict()``
    it is the only place for them, because Keras returns everything that is added to the logs of an
    evaluation.

    For TensorFlow and PyTorch, the peak is reset at the start of each epoch, validation, evaluation
    and prediction. JAX cannot reset its peak. On JAX, it is the peak since the process started, at
    least the profile's reserve, and a validation is given one only if it exceeded all earlier use.
    Validation data passed as arrays also counts toward the training peak, because Keras moves it to
    the GPU before it calls ``on_test_begin``. If nothing can be measured, one line on stderr gives
    the reason, and training continues.
    """

    def __init__(self, estimate: Estimated | None = None, *, device: str | None = "GPU:0") -> None:
        """Raise UsageError for an estimate without ``peak_bytes`` or a bad device name."""
        if estimate is not None and not _is_number(getattr(estimate, "peak_bytes", None)):
            raise UsageError(
                f"MemoryUsage: the estimate {estimate!r} has no peak_bytes",
                hint="pass what gpuconf.estimate(model, batch_size) returns, and name the device: "
                'MemoryUsage(device="GPU:1")',
            )
        if device is not None and not is_device(device):
            raise UsageError(
                f"MemoryUsage: device={device!r} is not a device",
                hint='device="GPU:0", or device=None for all GPUs',
            )
        self.estimate = estimate
        self.device = device
        self.last: dict[str, float] = {}
        self._gauge = DeviceGauge()
        self._is_in_epoch = False
        self._training_peaks: dict[str, int] = {}
        self._validation_peaks: dict[str, int] = {}

    def set_model(self, model: Any) -> None:
        """Set the model, and leave any epoch that an exception ended."""
        super().set_model(model)
        self._is_in_epoch = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Find the devices, which exist by now."""
        self._gauge.find(self.device, self.model)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Reset the peaks."""
        self._is_in_epoch = True
        self._training_peaks = {}
        self._validation_peaks = {}
        self._gauge.reset()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Add the figures to the logs for the callbacks that follow."""
        self._is_in_epoch = False
        # After a validation, memory in use may be its data, so it does not count as a training run
        # peak.
        training = {
            device: use._replace(peak_bytes=self._training_peaks.get(device, use.peak_bytes))
            for device, use in self._gauge.read().items()
        }
        self.last = self._figures(training, self._validation_peaks)
        if logs is not None:
            logs.update(self.last)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Leave the epoch."""
        self._is_in_epoch = False

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Save the training peak so far if this is an epoch's validation."""
        if self._is_in_epoch:
            _raise_to(self._training_peaks, self._gauge.read())
            self._gauge.reset()
        else:
            self._begin_alone()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Read the peak of an epoch's validation, or of a standalone evaluation."""
        if self._is_in_epoch:
            _raise_to(self._validation_peaks, self._gauge.read(of_this_part=True))
            self._gauge.reset()
        else:
            self.last = self._figures(self._gauge.read())

    def on_predict_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Reset the peaks, unless an epoch is running."""
        if not self._is_in_epoch:
            self._begin_alone()

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Read the figures of a standalone prediction."""
        if not self._is_in_epoch:
            self.last = self._figures(self._gauge.read())

    def _begin_alone(self) -> None:
        self._gauge.find(self.device, self.model)
        self._gauge.reset()

    def _figures(
        self, uses: Mapping[str, Use], validation_peaks: Mapping[str, int] | None = None
    ) -> dict[str, float]:
        return figures(
            uses,
            self.estimate,
            validation_peaks=validation_peaks or {},
            with_numbers=self._gauge.has_several,
        )


def figures(
    uses: Mapping[str, Use],
    estimate: Estimated | None,
    *,
    validation_peaks: Mapping[str, int],
    with_numbers: bool,
) -> dict[str, float]:
    """Return the log entries for the memory used on each device, keyed by names like ``GPU:0``.

    Values are floats, as Keras expects.  The estimate is per device and therefore appears once.
    Empty if nothing was measured.
    """
    found: dict[str, float] = {}
    for device, use in uses.items():
        prefix, number = kind_and_number(device)
        suffix = f"_{prefix}{number}" if with_numbers else ""
        found[f"{prefix}_memory_current_bytes{suffix}"] = float(use.current_bytes)
        found[f"{prefix}_memory_peak_bytes{suffix}"] = float(use.peak_bytes)
        if use.pool_bytes is not None:
            found[f"{prefix}_memory_pool_bytes{suffix}"] = float(use.pool_bytes)
        if device in validation_peaks:
            found[f"val_{prefix}_memory_peak_bytes{suffix}"] = float(validation_peaks[device])
        if estimate is not None:
            found[f"{prefix}_memory_peak_estimate_bytes"] = float(estimate.peak_bytes)
    return found


def _raise_to(peaks: dict[str, int], uses: Mapping[str, Use]) -> None:
    for device, use in uses.items():
        peaks[device] = max(use.peak_bytes, peaks.get(device, 0))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
