"""`MemoryUsage`, a Keras callback: the GPU memory of every epoch, in the logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gpuconf.callbacks.counters import Use
from gpuconf.callbacks.gauge import DeviceGauge, is_device, kind_and_number
from gpuconf.errors import UsageError
from gpuconf.keras_api.hooks import KerasHooks


class Estimated(Protocol):
    """What an estimate must have: a `gpuconf.footprint` MemoryEstimate has it."""

    @property
    def peak_bytes(self) -> int:
        """The most in use during a step, in bytes."""


class MemoryUsage(KerasHooks):
    """Logs the GPU memory that each epoch of ``fit()`` used, in bytes, on any backend of Keras.

    Put it first in ``callbacks``: Keras hands one dict of logs to the callbacks in their order, and
    those before it (CSVLogger, TensorBoard, EarlyStopping) would not see what it adds:

    - ``gpu_memory_peak_bytes``: the most in use during the epoch's training steps;
    - ``gpu_memory_current_bytes``: in use at the end of the epoch;
    - ``gpu_memory_pool_bytes``: what PyTorch or JAX holds of the card then, in use or not;
    - ``gpu_memory_peak_estimate_bytes``: ``estimate.peak_bytes``, where an estimate was given;
    - ``val_gpu_memory_peak_bytes``: the most in use during the epoch's validation, if it had one.

    They are what the framework's allocator counts for everything in this process; the CUDA context
    is not in it.  ``device`` is one device, as ``GPU:0`` or ``cuda:0``; None means all GPUs, and
    where these are several, each key ends in the GPU's number: ``gpu_memory_peak_bytes_gpu1``.

    ``last`` holds the newest figures by the same keys.  After ``evaluate()`` and ``predict()`` they
    are there alone, because Keras would return what is added to the logs of an evaluation.

    The peak of TensorFlow and PyTorch is reset when an epoch, a validation, an evaluation or a
    prediction begins.  JAX cannot reset its peak: there it is the most since the process began, and
    a validation has one only where it took more than all before.
    Validation data that is given as arrays counts as the training's, too: Keras puts it on the GPU
    before it says that the validation begins.
    Where nothing can be measured, one line on stderr says why, and the training goes on.
    """

    def __init__(self, estimate: Estimated | None = None, *, device: str | None = "GPU:0") -> None:
        """Raises UsageError for an estimate without ``peak_bytes`` and a name of no device."""
        if estimate is not None and not _is_number(getattr(estimate, "peak_bytes", None)):
            raise UsageError(
                f"MemoryUsage: the estimate {estimate!r} has no peak_bytes",
                hint="give what gpuconf.estimate(model, batch_size) returns, and a device by name: "
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
        """Begin anew: an epoch that an exception ended did not end for us."""
        super().set_model(model)
        self._is_in_epoch = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Find the devices, which are made by now."""
        self._gauge.find(self.device, self.model)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Let the peak begin anew."""
        self._is_in_epoch = True
        self._training_peaks = {}
        self._validation_peaks = {}
        self._gauge.reset()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Add the figures to the logs, for the callbacks that come after."""
        self._is_in_epoch = False
        # After a validation, what is in use may be its data, and no peak of the training.
        training = {
            device: use._replace(peak_bytes=self._training_peaks.get(device, use.peak_bytes))
            for device, use in self._gauge.read().items()
        }
        self.last = self._figures(training, self._validation_peaks)
        if logs is not None:
            logs.update(self.last)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Nothing is left behind: only the framework's own peak was reset."""
        self._is_in_epoch = False

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Keep what the training had so far, when this is an epoch's validation."""
        if self._is_in_epoch:
            _raise_to(self._training_peaks, self._gauge.read())
            self._gauge.reset()
        else:
            self._begin_alone()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Take the peak of a validation, or of an evaluation by itself."""
        if self._is_in_epoch:
            _raise_to(self._validation_peaks, self._gauge.read(of_this_part=True))
            self._gauge.reset()
        else:
            self.last = self._figures(self._gauge.read())

    def on_predict_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Let the peak begin anew, unless an epoch's is being taken."""
        if not self._is_in_epoch:
            self._begin_alone()

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Take the figures of a prediction by itself."""
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
    """What goes into the logs for the memory used on each device, by names such as ``GPU:0``.

    Floats, as all values of Keras's logs are; the estimate is per device, so it stands there once.
    Empty where nothing was measured.
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
