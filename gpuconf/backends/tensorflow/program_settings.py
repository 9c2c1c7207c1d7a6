"""The program's tf.config settings between the listing of its GPUs and the creation of devices.

The plan may be computed again in between.  What the program set under the first plan is then kept
within the second: GPUs that it has hidden stay hidden, and its logical devices are cut to the new
limit.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class _GpuSettings(NamedTuple):
    """The state of tf.config: the visible GPUs, and the logical devices of each."""

    visible: tuple[Any, ...]
    logical: dict[Any, list[Any] | None]


class ProgramSettings:
    """The program's own settings, relative to those that the last plan left."""

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._ours: _GpuSettings | None = None  # as the last plan left them
        self._theirs: _GpuSettings | None = None  # as the program left them before the next plan

    def forget(self) -> None:
        """Forget everything, because TensorFlow was released or has dropped all settings itself."""
        self._ours = self._theirs = None

    def before_plan(self) -> None:
        """Save the program's current settings before another plan replaces them."""
        if self._ours is not None and self._theirs is None:
            self._theirs = self._read()

    def after_plan(self) -> None:
        """Restore the settings that the program had changed."""
        if self._ours is not None and self._theirs is not None:
            self._set_again(self._theirs, self._ours)
        self._ours, self._theirs = self._read(), None

    @property
    def has_hidden_all(self) -> bool:
        """Whether the program itself has hidden all GPUs, so that TensorFlow creates none."""
        ours = self._ours
        if ours is None or not ours.visible:
            return False
        return not self._tensorflow.config.get_visible_devices("GPU")

    def _read(self) -> _GpuSettings:
        config = self._tensorflow.config
        logical = {
            device: config.get_logical_device_configuration(device)
            for device in config.list_physical_devices("GPU")
        }
        return _GpuSettings(tuple(config.get_visible_devices("GPU")), logical)

    def _set_again(self, theirs: _GpuSettings, ours: _GpuSettings) -> None:
        config = self._tensorflow.config
        visible = config.get_visible_devices("GPU")
        if theirs.visible != ours.visible:
            visible = [device for device in visible if device in theirs.visible]
            config.set_visible_devices(visible, "GPU")
        for device in visible:
            asked = theirs.logical.get(device)
            if asked and asked != ours.logical.get(device):
                config.set_logical_device_configuration(device, asked)
