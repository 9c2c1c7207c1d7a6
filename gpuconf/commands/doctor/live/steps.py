"""The child's steps in TensorFlow: contexts, a matmul, a convolution, and a Keras fit."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from gpuconf.commands.doctor.live.recorder import CardGauge, Recorder, WrongResultError
from gpuconf.commands.doctor.live.results import compare, whole_numbers
from gpuconf.planner import GpuPlan


class Bench:
    """The imported TensorFlow and the GPUs of the plan."""

    def __init__(
        self, tf: Any, recorder: Recorder, gauge: CardGauge, planned: Sequence[GpuPlan]
    ) -> None:
        self._tf = tf
        self._recorder = recorder
        self._gauge = gauge
        self._planned = planned
        self._devices: dict[int, str] = {}
        self.places: tuple[int, ...] = ()

    def list_cards(self, only: int | None) -> None:
        """Have TensorFlow list its GPUs, which starts CUDA but creates no context."""
        tf = self._tf
        self._recorder.write(
            "facts", version=tf.__version__, is_cuda_build=tf.test.is_built_with_cuda()
        )
        gpus = tf.config.list_physical_devices("GPU")
        self._recorder.write("facts", listed=len(gpus))
        if not gpus:
            self._record_backend()
            raise LookupError("TensorFlow lists no GPU")
        if only is not None:
            tf.config.set_visible_devices(gpus[only], "GPU")
        self.places = tuple(range(len(gpus))) if only is None else (only,)

    def make_contexts(self) -> None:
        """Have TensorFlow create its devices, all at once, as in any program."""
        with self._recorder.step("context", self.places, self._gauge.read):
            logical = self._tf.config.list_logical_devices("GPU")
            if not logical:
                self._record_backend()
            self._devices = _first_devices(
                [device.name for device in logical], self.places, self._planned
            )
            self._gauge.allocator = self._allocated
        self._recorder.write("notes", notes=_unmet_settings())

    def try_card(self, place: int) -> None:
        """Run the steps on one GPU until one fails.  Raises StepFailed."""
        for name, work in (
            ("matmul", self._matmul),
            ("convolution", self._convolution),
            ("fit", self._fit),
        ):
            device = self._devices[place]
            self._tf.config.experimental.reset_memory_stats(device)
            with self._recorder.step(name, (place,), self._gauge.read):
                work(device)

    def _record_backend(self) -> None:
        """Record Keras's backend; if it is not TensorFlow, gpuconf keeps TensorFlow off GPUs."""
        self._recorder.write("facts", keras_backend=_keras_backend(self._tf))

    def _allocated(self, place: int) -> tuple[int | None, int | None]:
        info = self._tf.config.experimental.get_memory_info(self._devices[place])
        return info["current"], info["peak"]

    def _matmul(self, device: str) -> None:
        """Multiply two 512 × 512 matrices in float32, which creates the cuBLAS handle."""
        import numpy as np

        left, right = whole_numbers((512, 512), seed=1), whole_numbers((512, 512), seed=2)
        got = self._compute(device, lambda: self._tf.linalg.matmul(left, right))
        compare(got, left.astype(np.float64) @ right)

    def _convolution(self, device: str) -> None:
        """Convolve 8 images of 32 × 32 × 8 with 16 kernels of 3 × 3, in float32.

        Creates the cuDNN handle.
        """
        import numpy as np

        images, kernels = whole_numbers((8, 32, 32, 8), seed=3), whole_numbers((3, 3, 8, 16), 4)
        got = self._compute(
            device, lambda: self._tf.nn.conv2d(images, kernels, strides=1, padding="VALID")
        )
        tricks: Any = np.lib.stride_tricks  # whose types leave out several axes before NumPy 2.3
        windows = tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
        compare(got, np.einsum("bhwcij,ijco->bhwo", windows.astype(np.float64), kernels))

    def _compute(self, device: str, build: Callable[[], Any]) -> Any:
        """Evaluate the tensor from ``build``, even in graph mode."""
        tf = self._tf
        if tf.executing_eagerly():
            with tf.device(device):
                return build().numpy()
        with tf.Graph().as_default(), tf.device(device):
            value = build()
            with tf.compat.v1.Session() as session:
                return session.run(value)

    def _fit(self, device: str) -> None:
        """Train a small convolutional network for two steps, compiled with Keras's defaults."""
        import numpy as np

        keras = self._tf.keras
        self._recorder.write("facts", keras=_version_of(keras))
        images = np.random.default_rng(5).random((32, 16, 16, 3), dtype=np.float32)
        with self._tf.device(device):
            model = keras.Sequential(
                [
                    keras.Input((16, 16, 3)),
                    keras.layers.Conv2D(8, 3, activation="relu"),
                    keras.layers.Flatten(),
                    keras.layers.Dense(10),
                ]
            )
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile("adam", loss)
            history = model.fit(images, np.arange(32) % 10, batch_size=16, epochs=1, verbose=0)
        if not math.isfinite(history.history["loss"][-1]):
            raise WrongResultError(f"the loss after two steps is {history.history['loss'][-1]}")


def _first_devices(
    names: Sequence[str], places: Sequence[int], planned: Sequence[GpuPlan]
) -> dict[int, str]:
    """The first logical device of each GPU; raises LookupError if TensorFlow created too few."""
    counts = [
        max(1, len(planned[place].logical_devices_bytes)) if place < len(planned) else 1
        for place in places
    ]
    if sum(counts) != len(names):
        raise LookupError(
            f"TensorFlow created {len(names)} devices, but {sum(counts)} were requested"
        )
    firsts = [sum(counts[:number]) for number in range(len(counts))]
    return {place: names[first] for place, first in zip(places, firsts, strict=True)}


def _unmet_settings() -> list[str]:
    """The profile's device settings that did not take effect."""
    import gpuconf

    made = gpuconf.activation()
    unmet = [setting for setting in made.settings if setting.why_not] if made else []
    return [str(setting) for setting in unmet if "GPU" in setting.name]


def _version_of(keras: Any) -> str:
    """Keras's version; for ``tf.keras`` in Keras 2 and for tf_keras, only their package has it."""
    name = keras.__name__.partition(".")[0]
    version = getattr(keras, "__version__", None) or getattr(
        sys.modules.get(name), "__version__", ""
    )
    return f"{name} {version}".strip()


def _keras_backend(tf: Any) -> str:
    """The backend of Keras."""
    try:
        return str(tf.keras.config.backend())
    except Exception:  # Keras 2, which has no other; or one that cannot be imported
        return "tensorflow"
