"""What is known about TensorFlow's GPU devices once they exist: their origin and their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuconf.backends.interface import PlanSource
from gpuconf.backends.tensorflow import readback
from gpuconf.basics.callsite import CallSite, user_call_site
from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import say
from gpuconf.planner import GpuPlan


class CreatedDevices:
    """The GPU devices of one imported TensorFlow, in the process that has created them.

    ``made_at`` is the line of user code that created the first device; None until then.
    ``is_orphan`` is True if this process was forked after that, until a message has reported it.
    """

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self._exist = False  # False if the program had hidden all GPUs
        self.made_at: CallSite | str | None = None
        self.is_orphan = False

    def after_fork(self) -> None:
        """In a forked child, remember to report that the parent's devices do not work there."""
        self.is_orphan = self._exist

    def report_orphan(self) -> None:
        """Print once that the devices in this forked process do not work."""
        self.is_orphan = False
        say(
            f"this process was forked after TensorFlow initialized its GPUs (at {self.made_at}), "
            "so CUDA does not work in it; use the 'spawn' start method, or start workers before "
            "creating a tensor"
        )

    def check(
        self,
        read_limits: Callable[[], dict[str, int]],
        options: Any,
        gpus: Sequence[GpuPlan | None],
        source: PlanSource,
    ) -> None:
        """Compare the limits of the first devices with the plan's, and report any difference.

        ``options`` are the GPUOptions that they were created with, and ``gpus`` holds the plan for
        each of TensorFlow's GPUs.
        """
        if self.made_at is not None:
            return
        self.made_at = user_call_site() or "an unknown line"
        try:
            limits = read_limits()
            self._exist = bool(limits)
            settings = readback.compare(limits, options, gpus)
        except Exception as error:  # our check must never end the user's program
            why = f"this version of TensorFlow did not report them: {type(error).__name__}: {error}"
            source.record(Setting("limits read back", "yes", "no", why))
            return
        if not self._tensorflow.config.list_physical_devices("GPU"):
            source.release()  # a build without CUDA, or without its libraries
        for setting in settings:
            source.record(setting)
            if setting.why_not is not None:
                say(str(setting))
