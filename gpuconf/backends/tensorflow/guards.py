"""Wrappers that route every way of creating TensorFlow GPU devices through the plan.

tf.config alone does not keep a script within a plan (tests/backends and tests/acceptance show each
case): ``list_local_devices``, sessions and servers create devices with their own options, the first
caller wins, and ``set_memory_growth`` raises ValueError on a device with a memory limit.  Each
wrapper applies the plan and reports what it changed; the actual limit is read back afterwards.

The plan is bound and applied to tf.config when TensorFlow first lists its GPUs, in the process that
lists them, because a process that has initialized CUDA cannot fork workers that use it.
"""

from __future__ import annotations

import functools
import importlib
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from gpuconf.backends import keras_backend
from gpuconf.backends.interface import PlanSource
from gpuconf.backends.tensorflow import devices, readback
from gpuconf.backends.tensorflow.created_devices import CreatedDevices
from gpuconf.backends.tensorflow.environment import GROWTH
from gpuconf.backends.tensorflow.program_settings import ProgramSettings
from gpuconf.backends.tensorflow.reserve import take_reserve
from gpuconf.backends.tensorflow.session_config import LimitedSetting, limit_to_plan
from gpuconf.basics.callsite import user_call_site
from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import say
from gpuconf.basics.units import MIB
from gpuconf.injected.sizes import listed, scaled_to
from gpuconf.planner import GpuPlan, Plan


class Guards:
    """The wrappers around one imported TensorFlow.

    ``source`` may be replaced until devices exist; None leaves TensorFlow alone.  ``plan`` is the
    bound plan, None until then, and ``physical`` holds its entry for each of TensorFlow's GPUs.
    ``waits_for_listing`` is False if we cannot detect when TensorFlow lists its GPUs, so that the
    plan must not wait for it. ``is_configuring`` is True while the plan itself is being applied to
    tf.config.
    """

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow
        self.source: PlanSource | None = None
        self.plan: Plan | None = None
        self.devices = CreatedDevices(tensorflow)
        self.physical: list[GpuPlan | None] = []
        self.waits_for_listing = True
        self.is_configured = False
        self.is_configuring = False
        self._hidden_at_start = False
        self._has_left_gpus = False  # to other programs, because the program itself had hidden them
        self._settings = ProgramSettings(tensorflow)
        self._context: weakref.ref[Any] | None = None  # DTensor replaces it

    def record(self, setting: Setting) -> None:
        """Record a setting's outcome."""
        if self.source is not None:
            self.source.record(setting)

    def install(self) -> None:
        """Wrap the functions; one that this TensorFlow lacks is recorded but is not an error."""
        made = "tensorflow.python.eager.context:Context"
        self.waits_for_listing = self._wrap(
            made, "_initialize_physical_devices", self._initialize_physical_devices
        )
        self._wrap(made, "ensure_initialized", self._ensure_initialized)
        self._wrap(made, "set_memory_growth", self._set_memory_growth)
        self._wrap(made, "get_memory_growth", self._get_memory_growth)
        self._wrap(made, "set_logical_device_configuration", self._set_logical)
        session = "tensorflow.python.client.session:BaseSession"
        self._wrap(session, "__init__", self._session_init)
        self._wrap("tensorflow.python.training.server_lib:Server", "__init__", self._server_init)
        # Not device_lib's own function: scripts may already hold a reference to it.
        self._wrap(
            "tensorflow.python.client._pywrap_device_lib", "list_devices", self._list_devices
        )

    def take(self, source: PlanSource | None) -> None:
        """Apply the plan of ``source`` to TensorFlow from now on; None releases TensorFlow."""
        self.source, self.plan = source, None
        self.physical, self.is_configured = [], source is None
        self._settings.forget()

    def after_fork(self) -> None:
        """In a forked child, create and bind everything that does not exist there yet."""
        self.is_configuring = False
        if self.devices.made_at is None:
            self.is_configured = False
        self.devices.after_fork()

    def _wrap(self, place: str, name: str, wrapper: Callable[..., Any]) -> bool:
        """Wrap ``name`` of ``module`` or ``module:class``; return False if it does not exist."""
        module, _, cls = place.partition(":")
        try:
            owner = importlib.import_module(module)
            owner = getattr(owner, cls) if cls else owner
            original = getattr(owner, name)
        except (ImportError, AttributeError):
            why = f"TensorFlow has no {place}.{name}: gpuconf cannot limit code that calls it"
            self.record(Setting(f"guard of {name}", "wrapped", None, why))
            return False

        @functools.wraps(original)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if self.source is None:
                return original(*args, **kwargs)
            return wrapper(original, *args, **kwargs)

        setattr(owner, name, guarded)
        return True

    # --- the plan itself ------------------------------------------------------------------------

    def _initialize_physical_devices(
        self, original: Callable[..., Any], context: Any, reinitialize: bool = False
    ) -> Any:
        result = original(context, reinitialize)
        is_another = self._context is not None and self._context() is not context
        self._context = weakref.ref(context)
        if (reinitialize or is_another) and not self.is_configuring:
            self.is_configured = False  # TensorFlow has just dropped all settings
            self._settings.forget()
        if not self.is_configured and context._context_handle is None:
            self.configure()
        return result

    def configure(self) -> None:
        """Bind the plan and apply it to tf.config, once; raise what binding raises."""
        if not self.is_configured:
            self._bind(only_lists=True)

    def _bind(self, *, only_lists: bool) -> None:
        if self.source is None:
            return
        try:
            self.source.bind(self._configure_once, only_lists=only_lists)
        except BaseException:
            self.is_configured = False
            raise

    def _configure_once(self, plan: Plan) -> None:
        """Apply the plan while holding the lock of ``source``; this thread may reenter.

        Devices may be created long after they were listed, with another plan.  Whatever the program
        has set in between is kept within that plan.
        """
        if self.is_configuring or (self.is_configured and self._has(plan)):
            return
        try:
            self.is_configuring = True
            self._settings.before_plan()
            self._configure(plan)
            self.is_configured = True
        finally:
            self.is_configuring = False
        self._settings.after_plan()

    def _has(self, plan: Plan) -> bool:
        mine = self.plan
        return mine is not None and (mine.gpus, mine.hides_gpus) == (plan.gpus, plan.hides_gpus)

    def _configure(self, plan: Plan) -> None:
        self.plan = plan
        if self.hide_beside_keras():
            return
        if plan.hides_gpus:
            self._hidden_at_start = True
        elif self._hidden_at_start and not self._tensorflow.config.list_physical_devices("GPU"):
            devices.refuse_hidden_before(plan)
        in_graph_mode = not self._tensorflow.executing_eagerly()
        if plan.profile.tensorflow.session != "graph" or plan.hides_gpus or not in_graph_mode:
            # In graph mode the session's own options decide everything; see keras_session.
            self.physical = devices.configure(plan, self._tensorflow, self.record)

    def hide_beside_keras(self) -> bool:
        """Hide all GPUs from TensorFlow if the program uses Keras with another backend."""
        backend = keras_backend.elsewhere()
        if backend is not None:
            devices.hide(self._tensorflow, self.record)
            say(f"Keras runs on {backend}, so the GPUs are hidden from TensorFlow")
        return backend is not None

    # --- ways to create devices -----------------------------------------------------------------

    def _ensure_initialized(self, original: Callable[..., Any], context: Any) -> Any:
        if context._initialized:  # a plain attribute since TF 2.0; this is the hot path
            if self.devices.is_orphan:
                self.devices.report_orphan()
            return original(context)
        self._about_to_make_devices(are_hidden=self._settings.has_hidden_all)
        physical = context.list_physical_devices("GPU")
        self._use([physical.index(device) for device in context.get_visible_devices("GPU")])
        result = original(context)
        read_limits = functools.partial(readback.of_context, context)
        self._check_devices(read_limits, context.config.gpu_options)
        tf, source = self._tensorflow, self.source
        if source is not None and tf.compat.v1.executing_eagerly_outside_functions():
            take_reserve(tf, read_limits, context.config, self._planned(), source)
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
        if not isinstance(config, config_pb2.ConfigProto):
            return original(session, target, graph, config)  # it reports what is wrong
        config = self._held(config, "Session")
        self._use_listed(config.gpu_options)
        result = original(session, target, graph, config)
        if not target:  # devices on another machine do not concern us
            read_limits = functools.partial(readback.of_session, session)
            self._check_devices(read_limits, config.gpu_options)
            if self.source is not None:
                gpus, tf = self._planned(), self._tensorflow
                take_reserve(tf, read_limits, config, gpus, self.source, in_session=True)
        return result

    def _list_devices(self, original: Callable[..., Any], serialized: Any = None) -> Any:
        from tensorflow.core.protobuf import config_pb2
        from tensorflow.python.eager import context

        self._about_to_make_devices()
        config = context.context().config
        if serialized is not None:
            config = config_pb2.ConfigProto.FromString(serialized)
        config = self._held(config, "list_local_devices")
        self._use_listed(config.gpu_options)
        found = original(config.SerializeToString())
        self._check_devices(lambda: readback.of_attributes(found), config.gpu_options)
        return found

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
        self._use_listed(held.gpu_options)
        result = original(
            server, server_or_cluster_def, job_name, task_index, protocol, held, start
        )
        self._check_devices(dict, held.gpu_options)  # a server does not report its limits
        return result

    # --- what a script itself sets in tf.config -------------------------------------------------

    def _set_memory_growth(
        self, original: Callable[..., Any], context: Any, device: Any, enable: bool
    ) -> Any:
        plan = self.plan
        context._initialize_physical_devices()
        limited = self._limit_of(context, device) is not None
        if self.is_configuring or plan is None or (plan.allow_growth is None and not limited):
            return original(context, device, enable)
        if plan.allow_growth is None:
            # The only way to enable growth on a device with a limit; read when the allocator is
            # created.
            os.environ.setdefault(GROWTH, "true" if enable else "false")
            self.record(Setting(GROWTH, str(enable).lower(), os.environ[GROWTH]))
        elif bool(enable) != plan.allow_growth:
            change = LimitedSetting(str(enable), str(plan.allow_growth), "sets allow_growth")
            self._say_changes("set_memory_growth", [change])
        return None

    def _get_memory_growth(self, original: Callable[..., Any], context: Any, device: Any) -> Any:
        seen = original(context, device)
        limited = seen is None and self._limit_of(context, device) is not None
        return os.environ.get(GROWTH) == "true" if limited else seen

    def _set_logical(
        self, original: Callable[..., Any], context: Any, device: Any, wanted: Any
    ) -> Any:
        context._initialize_physical_devices()
        limit = None if self.is_configuring else self._limit_of(context, device)
        asked = [logical.memory_limit for logical in wanted or ()]
        if limit is None or not asked or None in asked:
            return original(context, device, wanted)
        held = scaled_to(asked, limit)
        if [int(size) for size in asked] != held:
            change = LimitedSetting(f"memory_limit {listed(asked)}", listed(held))
            self._say_changes("set_logical_device_configuration", [change])
        scaled = [
            logical._replace(memory_limit=size) for logical, size in zip(wanted, held, strict=True)
        ]
        return original(context, device, scaled)

    def _limit_of(self, context: Any, device: Any) -> int | None:
        """Return the plan's limit for ``device`` in MiB; None if it has none."""
        gpus = context.list_physical_devices("GPU")
        if device not in gpus or len(gpus) != len(self.physical):
            return None
        gpu = self.physical[gpus.index(device)]
        return None if gpu is None or gpu.limit_bytes is None else gpu.limit_bytes // MIB

    # --- helpers --------------------------------------------------------------------------------

    def _held(self, config: Any, function: str) -> Any:
        """Limit ``config`` to the plan and report changes; unchanged with ``session: none``."""
        if self.plan is None or self.plan.profile.tensorflow.session == "none":
            return config
        held, changes = limit_to_plan(config, self.plan, self.physical)
        self._say_changes(function, changes)
        return held

    def _about_to_make_devices(self, *, are_hidden: bool = False) -> None:
        if self.devices.made_at is None:
            is_computing_elsewhere = keras_backend.elsewhere() is not None
            self._bind(only_lists=is_computing_elsewhere or are_hidden or self.is_configuring)
            self._has_left_gpus = are_hidden
        elif self._has_left_gpus and self.source is not None:
            # A session or server sees GPUs that were hidden in tf.config.
            self.source.bind(self._hold_sessions)
            self._has_left_gpus = False

    def _planned(self) -> Sequence[GpuPlan | None]:
        """Return the plan for each of TensorFlow's GPUs, as far as known."""
        return self.physical or (self.plan.gpus if self.plan else ())

    def _use_listed(self, options: Any) -> None:
        """Like :meth:`_use`, with the GPUs named in a GPUOptions."""
        self._use(readback.visible_indices(options, len(self._planned())))

    def _use(self, indices: Sequence[int]) -> None:
        """Register this process on the TensorFlow GPUs at these indices before it uses them."""
        known = self._planned()
        used = [known[index] for index in indices if index < len(known)]
        if self.source is not None and keras_backend.elsewhere() is None:
            self.source.use([each.gpu.uuid for each in used if each and each.gpu.uuid])

    def _hold_sessions(self, plan: Plan) -> None:
        """Apply ``plan`` to sessions only, through their own options."""
        if not self._has(plan):
            self.plan, self.physical = plan, []

    def _check_devices(self, read_limits: Callable[[], dict[str, int]], options: Any) -> None:
        if self.plan is not None and self.source is not None:
            self.devices.check(read_limits, options, self._planned(), self.source)

    def _say_changes(self, function: str, changes: list[LimitedSetting]) -> None:
        """Report and record what the script asked ``function`` for but did not get."""
        site = user_call_site()
        where = f"{function} at {site}" if site else function
        name = "" if self.plan is None else self.plan.profile.name
        for change in changes:
            setting = Setting(where, change.asked, change.got, f"profile {name} {change.why}")
            self.record(setting)
            say(str(setting))
