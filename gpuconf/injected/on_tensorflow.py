"""TensorFlow 1.4 to 2.x: wraps every function that creates GPU devices, to apply the plan.

- All sessions (Session, InteractiveSession, MonitoredSession, and those of Keras) go through
  BaseSession.__init__. A server has its own configuration.
- ``device_lib.list_local_devices``, and ``tf.test.is_gpu_available`` and ``gpu_device_name``, which
  call it, create the devices with default options.  Whatever creates the devices first determines
  their options.
- Eager execution creates them in its context. From 1.14 on, the context also lists GPUs for
  tf.config; see logical_devices.py.

Devices are created, and the process is counted, when the program does so and never earlier.  A
process that has started CUDA cannot fork workers that use it.
"""

import os
import sys

_site = sys.modules["_gpuconf_injected_site"]
_messages = _site.load("messages")
_session_options = _site.load("session_options")
_wrapping = _site.load("wrapping")
_wrap = _wrapping.wrap
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
_held = []  # the guards of this process


def hold(tensorflow, run):
    """Apply ``run`` to the imported TensorFlow.  Raises MissingError and TooLateError."""
    if not _is_tensorflow(tensorflow):
        return
    if not _held:
        _held.append(Guards(run))
    guards = _held[0]
    guards.install()
    if run.session == "graph":
        _leave_eager_mode(tensorflow)
        guards.is_whole = True
        if "keras" in sys.modules:  # imported by TensorFlow
            _site.load("on_keras").hold(sys.modules["keras"], run)
    guards.is_whole = True


def is_held():
    """Whether TensorFlow has been imported completely."""
    return bool(_held) and _held[0].is_whole


def _is_tensorflow(module):
    """Whether this is TensorFlow, not a stub or a folder with that name."""
    if not isinstance(getattr(module, "__version__", None), str):
        return False
    return "tensorflow.python" in sys.modules or "tensorflow_core.python" in sys.modules


def _listed(options):
    """Return the GPUs in the ``visible_device_list`` of a GPUOptions; None for all."""
    entries = [entry.strip() for entry in options.visible_device_list.split(",")]
    return [int(entry) for entry in entries if entry.isdigit()] or None


def _leave_eager_mode(tensorflow):
    compat = getattr(getattr(tensorflow, "compat", None), "v1", None)
    if getattr(tensorflow, "executing_eagerly", lambda: False)():
        compat.disable_eager_execution()


class Guards(object):
    """The wrappers around TensorFlow."""

    def __init__(self, run):
        self.run = run
        self.is_whole = False  # TensorFlow's import has finished
        self._has_cuda = None
        self._logical = None

    def install(self):
        """Wrap the functions.  After an interrupt, a second call wraps the rest."""
        from tensorflow.python.client import device_lib, session
        from tensorflow.python.training import server_lib

        _wrap(session.BaseSession, "__init__", self._session_init)
        _wrap(server_lib.Server, "__init__", self._server_init)
        _wrap(device_lib, "list_local_devices", self._list_local_devices)
        try:
            from tensorflow.python.eager import context
        except ImportError:
            return  # 1.3 and older
        made = getattr(context, "_context", None)
        if not self.is_whole and getattr(made, "_context_handle", None) is not None:
            raise _wrapping.TooLateError("TensorFlow")
        if hasattr(context.Context, "_initialize_physical_devices"):
            self._logical = self._logical or _site.load("logical_devices").LogicalDevices(self)
            self._logical.install(context)
        else:
            _wrap(context.Context, "_initialize_handle_and_devices", self._initialize_context)

    def cards(self):
        """Return the limits for each of this process's GPUs, or for an unknown GPU."""
        if self.run.cards:
            return self.run.cards_left() or self.run.cards  # if all are hidden, any will do
        return [self.run.unknown] if self.run.unknown else []

    def about_to_make_devices(self, indices=None):
        """Count this process on the GPUs at ``indices``, by default on all of its GPUs.

        Raises NoPlaceError if the run has no place left for it.
        """
        if self.run.growth is not None:
            os.environ[GROWTH] = "true" if self.run.growth else "false"
        if self._can_use_gpus():
            self.run.take_places(indices)

    def say_changes(self, changes, why="allows no more"):
        """Report what the program requested and what it got, as gpuconf itself does."""
        line = _messages.user_line() if changes else ""
        for asked, got in changes:
            told = (line, asked, got, self.run.profile, why)
            _messages.say("%s: requested %s, got %s: profile %s %s" % told)

    def _can_use_gpus(self):
        if self._has_cuda is None:
            test = sys.modules["tensorflow"].test
            ask = getattr(test, "is_built_with_gpu_support", None) or test.is_built_with_cuda
            self._has_cuda = bool(ask())
        return self._has_cuda

    # --- sessions ---------------------------------------------------------------------------------

    def _held_config(self, config):
        held, changes = _session_options.held(config, self.run, self.cards())
        self.say_changes(changes)
        if not ("GPU" in held.device_count and held.device_count["GPU"] == 0):
            self.about_to_make_devices(_listed(held.gpu_options))
        return held

    def _default_config(self):
        """Return the configuration that TensorFlow uses if the program gives none."""
        from tensorflow.core.protobuf import config_pb2

        if self._logical is None:
            return config_pb2.ConfigProto()
        return self._logical.default_config()

    def _session_init(self, original, session, target="", graph=None, config=None):
        from tensorflow.core.protobuf import config_pb2

        config = self._default_config() if config is None else config
        is_elsewhere = "://" in str(target)  # on a server, which has its own configuration
        if isinstance(config, config_pb2.ConfigProto) and not is_elsewhere:
            session._session = None  # for __del__, if an error is raised here
            config = self._held_config(config)
        return original(session, target, graph, config)

    def _server_init(  # noqa: PLR0917  # the signature is TensorFlow's
        self,
        original,
        server,
        server_or_cluster_def,
        job_name=None,
        task_index=None,
        protocol=None,
        config=None,
        start=True,
    ):
        theirs = getattr(server_or_cluster_def, "default_session_config", None)
        if theirs is not None:  # a ServerDef, which TensorFlow merges with config
            merged = type(server_or_cluster_def)()
            merged.CopyFrom(server_or_cluster_def)
            if config is not None:
                merged.default_session_config.MergeFrom(config)
            merged.default_session_config.CopyFrom(self._held_config(merged.default_session_config))
            server_or_cluster_def, config = merged, None
        else:
            config = self._held_config(self._default_config() if config is None else config)
        return original(
            server, server_or_cluster_def, job_name, task_index, protocol, config, start
        )

    def _list_local_devices(self, original, session_config=None):
        config = self._default_config() if session_config is None else session_config
        config = self._held_config(config)
        if original.__code__.co_argcount:
            return original(config)
        # Up to 1.5 it has no argument.  Memory belongs to the process there, so the first session's
        # options apply.
        from tensorflow.python.client import session
        from tensorflow.python.framework import ops

        session.Session(graph=ops.Graph(), config=config).close()
        devices = original()
        least = _session_options.smallest(self.cards())
        for device in devices:
            if device.device_type == "GPU" and least is not None:  # not the free memory
                device.memory_limit = min(device.memory_limit, least.limit_bytes)
        return devices

    # --- eager execution up to 1.13 ---------------------------------------------------------------

    def _initialize_context(self, original, context):
        if context._context_handle is not None:
            return original(context)
        asked = context._config
        context._config = self._held_config(self._default_config() if asked is None else asked)
        try:
            return original(context)
        finally:
            context._config = asked  # TensorFlow compares it with a config it is given again
