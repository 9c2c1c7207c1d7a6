"""TensorFlow 1.14 and newer: sets limits through tf.config when TensorFlow first lists its GPUs.

A limit in tf.config belongs to a logical device. Only TF_FORCE_GPU_ALLOW_GROWTH combines such a
limit with growth.
"""

import os
import sys

_site = sys.modules["_gpuconf_injected_site"]
_session_options = _site.load("session_options")
_sizes = _site.load("sizes")
_wrap = _site.load("wrapping").wrap
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
_MIB = _sizes.MIB


class LogicalDevices(object):
    """Wrappers around the eager context; ``guards`` are the Guards of on_tensorflow.py."""

    def __init__(self, guards):
        self._guards = guards
        self._run = guards.run
        self._limits_mib = {}  # physical device -> its limit
        self._configured = None  # the context that the plan was applied to
        self._set = None
        self._kind = None
        self._module = None

    def install(self, module):
        """Wrap the functions of ``tensorflow.python.eager.context``."""
        self._module = module
        cls = module.Context
        newer = hasattr(cls, "set_logical_device_configuration")  # 2.1
        setter = "set_logical_device_configuration" if newer else "set_virtual_device_configuration"
        self._kind = getattr(module, "LogicalDeviceConfiguration", None)
        self._kind = self._kind or module.VirtualDeviceConfiguration
        maker = "ensure_initialized"
        if not hasattr(cls, maker):  # 1.14
            maker = "_initialize_handle_and_devices"
        self._set = self._set or getattr(cls, setter)
        _wrap(cls, setter, self._set_logical)
        _wrap(cls, "set_memory_growth", self._set_memory_growth)
        _wrap(cls, "get_memory_growth", self._get_memory_growth)
        _wrap(cls, maker, self._ensure_initialized)
        _wrap(cls, "_initialize_physical_devices", self._initialize_physical_devices)

    def default_config(self):
        """Return the ConfigProto of tf.config, which is used by sessions without their own."""
        return self._module.context().config

    # --- the plan ---------------------------------------------------------------------------------

    def _initialize_physical_devices(self, original, context, *args, **kwargs):
        result = original(context, *args, **kwargs)
        again = bool(args and args[0]) or bool(kwargs.get("reinitialize"))
        if context._context_handle is None and (again or self._configured is not context):
            self._configured = context
            try:
                self._configure(context)
            except BaseException:
                self._configured = None
                raise
        return result

    def _configure(self, context):
        run = self._run
        if run.growth is not None:
            os.environ[_GROWTH] = "true" if run.growth else "false"
        cards = self._guards.cards()  # may change which GPUs CUDA sees
        physical = context.list_physical_devices("GPU")
        if run.hides_gpus:
            context.set_visible_devices([], "GPU")
            return
        if len(cards) != len(physical):  # TensorFlow skips GPUs that it finds too weak
            least = _session_options.smallest(cards)
            cards = [] if least is None else [least] * len(physical)
        self._limits_mib = {}
        for device, card in zip(physical, cards):
            limits = [size // _MIB for size in card.logical_bytes]
            if not limits and card.limit_bytes is not None:
                limits = [self._limit_of_config(context, card)]
            if limits:
                self._set(context, device, [self._kind(memory_limit=size) for size in limits])
                self._limits_mib[device] = sum(limits)
        if self._limits_mib:
            self._drop_fraction(context)

    def _limit_of_config(self, context, card):
        """Return the GPU's limit in MiB, or the program's configured size if smaller."""
        limit = card.limit_bytes // _MIB
        config = context._config
        asked = 0 if config is None else config.gpu_options.per_process_gpu_memory_fraction
        if not asked or not card.total_bytes:
            return limit
        size = int(asked * card.total_bytes) // _MIB
        if size > limit:
            wanted = "per_process_gpu_memory_fraction %g (%d MiB)" % (asked, size)
            self._guards.say_changes([(wanted, "%d MiB" % (limit,))])
        return min(limit, size)

    def _drop_fraction(self, context):
        """Clear the memory fraction, which cannot be combined with logical devices."""
        config = context._config
        if config is not None and config.gpu_options.per_process_gpu_memory_fraction:
            context._config = type(config)()
            context._config.CopyFrom(config)
            context._config.gpu_options.per_process_gpu_memory_fraction = 0

    def _ensure_initialized(self, original, context):
        visible = context.get_visible_devices("GPU") if context._context_handle is None else []
        if visible:
            physical = context.list_physical_devices("GPU")
            self._guards.about_to_make_devices([physical.index(device) for device in visible])
        return original(context)

    # --- the program's own settings ---------------------------------------------------------------

    def _set_memory_growth(self, original, context, device, enable):
        context._initialize_physical_devices()
        growth = self._run.growth
        if growth is not None and bool(enable) != growth:
            asked = "set_memory_growth %s" % (bool(enable),)
            self._guards.say_changes([(asked, "%s" % (growth,))], "sets allow_growth")
        if device not in self._limits_mib:
            return original(context, device, enable if growth is None else growth)
        # TensorFlow refuses growth for a device with a limit, but follows the variable.
        if growth is None:
            os.environ.setdefault(_GROWTH, "true" if enable else "false")
        return None

    def _get_memory_growth(self, original, context, device):
        seen = original(context, device)
        if device in self._limits_mib and seen is None:
            return os.environ.get(_GROWTH) == "true"
        return seen

    def _set_logical(self, original, context, device, wanted):
        context._initialize_physical_devices()
        limit = self._limits_mib.get(device)
        asked = [logical.memory_limit for logical in wanted or ()]
        if limit is None or not asked or None in asked:
            return original(context, device, wanted)
        given = _sizes.scaled_to(asked, limit)
        if [int(size) for size in asked] != given:
            self._guards.say_changes(
                [("memory_limit " + _sizes.listed(asked), _sizes.listed(given))]
            )
        return original(
            context,
            device,
            [logical._replace(memory_limit=size) for logical, size in zip(wanted, given)],
        )
