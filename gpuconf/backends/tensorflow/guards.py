"""TensorFlow's other ways to make GPU devices, led through the plan as well.

tf.config alone does not hold a script to a plan (tests/backends and tests/acceptance show each):

- ``device_lib.list_local_devices`` and with it ``tf.test.gpu_device_name`` and
  ``tf.test.is_gpu_available`` make the devices with default options, and the first maker wins;
- a ``tf.compat.v1.Session(config=…)`` brings GPU options of its own, a ``tf.distribute.Server``
  has default ones;
- ``set_memory_growth``, which stands in half the scripts there are, raises ValueError on a
  device that has a memory limit;
- a script's own ``set_logical_device_configuration`` replaces the plan's.

So these six functions are wrapped.  Each wrapper does what the plan says, tells what it changed,
and afterwards reads back the limit that the device really has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gpuconf.backends.tensorflow import readback
from gpuconf.backends.tensorflow.devices import Record
from gpuconf.backends.tensorflow.session_config import hold_to_plan, scaled_to
from gpuconf.callsite import CallSite, user_call_site
from gpuconf.planner import Plan
from gpuconf.settings import Setting
from gpuconf.terminal import say
from gpuconf.units import MIB


class Guards:
    """The wrappers around one imported TensorFlow; ``plan`` may be replaced until devices exist.

    ``devices_made_at`` is the user's line that made the first GPU devices; None until then.
    ``before_devices`` is called right before they are made, and may raise.
    """

    def __init__(self, plan: Plan, record: Record) -> None:
        self.plan = plan
        self.record = record
        self.devices_made_at: CallSite | str | None = None
        self.before_devices: Callable[[], None] | None = None
        self.is_configuring = False

    def install(self) -> None:
        """Wrap the functions; one that this TensorFlow lacks is recorded, not fatal."""
        from tensorflow.python.client import device_lib, session
        from tensorflow.python.eager import context
        from tensorflow.python.training import server_lib

        self._wrap(context.Context, "ensure_initialized", self._ensure_initialized)
        self._wrap(context.Context, "set_memory_growth", self._set_memory_growth)
        self._wrap(context.Context, "set_logical_device_configuration", self._set_logical)
        self._wrap(session.BaseSession, "__init__", self._session_init)
        self._wrap(device_lib, "list_local_devices", self._list_local_devices)
        self._wrap(server_lib.Server, "__init__", self._server_init)

    def _wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            why = f"this TensorFlow has no {name}, so scripts that use it go unguarded"
            self.record(Setting(f"guard of {name}", "wrapped", None, why))
            return

        @functools.wraps(original)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        setattr(owner, name, guarded)

    # --- ways to make devices -------------------------------------------------------------------

    def _ensure_initialized(self, original: Callable[..., Any], context: Any) -> Any:
        if context._initialized:  # a plain attribute since TF 2.0; this is the hot path
            return original(context)
        self._about_to_make_devices()
        result = original(context)
        self._made_devices(lambda: readback.of_context(context))
        return result

    def _session_init(
        self,
        original: Callable[..., Any],
        session: Any,
        target: Any = "",
        graph: Any = None,
        config: Any = None,
    ) -> Any:
        from tensorflow.core.protobuf import config_pb2
        from tensorflow.python.eager import context

        self._about_to_make_devices()
        if config is None:
            config = context.context().config
        if isinstance(config, config_pb2.ConfigProto):
            config = self._held(config, "Session")
        result = original(session, target, graph, config)
        self._made_devices(lambda: readback.of_session(session))
        return result

    def _list_local_devices(self, original: Callable[..., Any], session_config: Any = None) -> Any:
        from tensorflow.python.eager import context

        self._about_to_make_devices()
        config = context.context().config if session_config is None else session_config
        devices = original(self._held(config, "list_local_devices"))
        self._made_devices(lambda: readback.of_attributes(devices))
        return devices

    def _server_init(  # noqa: PLR0917  # the signature is TensorFlow's
        self,
        original: Callable[..., Any],
        server: Any,
        server_or_cluster_def: Any,
        job_name: Any = None,
        task_index: Any = None,
        protocol: Any = None,
        config: Any = None,
        start: bool = True,
    ) -> Any:
        from tensorflow.core.protobuf import config_pb2

        self._about_to_make_devices()
        theirs = getattr(server_or_cluster_def, "default_session_config", None)
        held = self._held(config or theirs or config_pb2.ConfigProto(), "Server")
        result = original(
            server, server_or_cluster_def, job_name, task_index, protocol, held, start
        )
        self._made_devices(dict)  # a server does not tell its devices' limits
        return result

    def _held(self, config: Any, function: str) -> Any:
        """``config`` held to the plan, and what that changed said; as it is if so asked."""
        if self.plan.profile.tensorflow.session == "none":
            return config
        held, changes = hold_to_plan(config, self.plan)
        self._tell(function, changes)
        return held

    # --- settings of the script's own -----------------------------------------------------------

    def _set_memory_growth(
        self, original: Callable[..., Any], context: Any, device: Any, enable: bool
    ) -> Any:
        planned = self.plan.allow_growth
        if self.is_configuring or planned is None:
            return original(context, device, enable)
        if bool(enable) != planned:
            self._tell("set_memory_growth", [f"{enable} asked, the plan's {planned} stays"])
        return None

    def _set_logical(
        self, original: Callable[..., Any], context: Any, device: Any, wanted: Any
    ) -> Any:
        limit = None if self.is_configuring else self._limit_of(context, device)
        asked = [logical.memory_limit for logical in wanted or ()]
        if limit is None or not asked or None in asked or sum(asked) <= limit:
            return original(context, device, wanted)
        held = scaled_to(asked, limit)
        sums = " + ".join(f"{size:g}" for size in asked)
        self._tell(
            "set_logical_device_configuration",
            [f"{sums} MiB is more than the plan's {limit} MiB: {held} MiB is used"],
        )
        scaled = [
            logical._replace(memory_limit=size) for logical, size in zip(wanted, held, strict=True)
        ]
        return original(context, device, scaled)

    def _limit_of(self, context: Any, device: Any) -> int | None:
        """The plan's limit of ``device`` in MiB; None where it has none."""
        gpus = list(context.list_physical_devices("GPU"))
        if device not in gpus or not self.plan.gpus:
            limit = self.plan.unknown_gpu.limit_bytes if self.plan.unknown_gpu else None
        else:
            index = min(gpus.index(device), len(self.plan.gpus) - 1)
            limit = self.plan.gpus[index].limit_bytes
        return None if limit is None else limit // MIB

    # --- around them ----------------------------------------------------------------------------

    def _about_to_make_devices(self) -> None:
        if self.devices_made_at is None and self.before_devices is not None:
            self.before_devices()

    def _made_devices(self, read_limits: Callable[[], dict[str, int]]) -> None:
        if self.devices_made_at is not None:
            return
        self.devices_made_at = user_call_site() or "an unknown line"
        for setting in readback.compare(read_limits(), self.plan):
            self.record(setting)
            if setting.why_not is not None:
                say(str(setting))

    def _tell(self, function: str, changes: list[str]) -> None:
        site = user_call_site()
        where = f"{function} at {site}" if site else function
        for change in changes:
            say(f"{where}: {change} (profile {self.plan.profile.name})")
            self.record(Setting(where, "as the script says", "held to the plan", change))
