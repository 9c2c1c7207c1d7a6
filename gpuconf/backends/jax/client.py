"""JAX's GPU client, created with the plan's fraction regardless of what the script set before.

Two functions are wrapped (private names of jax 0.4.30 to 0.12.0.1):

- ``xla_bridge.discover_pjrt_plugins`` finds the CUDA plugin.  That initializes CUDA, so the visible
  GPUs must be set before; it also reads XLA's variables.
- ``xla_client.make_c_api_client`` creates the client, and with it the allocators.  Its options
  include everything a script can set: XLA's variables and ``jax_pjrt_client_create_options``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuconf.backends.interface import PlanSource
from gpuconf.backends.jax.early_init import has_gpu_backend, too_late
from gpuconf.backends.jax.environment import (
    is_within,
    share_of_plan,
    unenforced_limit,
    why_no_cap,
)
from gpuconf.backends.jax.reserve import take_reserve
from gpuconf.backends.wrapping import ENTRANCES, is_watched, wrap_call
from gpuconf.basics.callsite import user_call_site
from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import say
from gpuconf.basics.units import sized
from gpuconf.errors import BackendError
from gpuconf.planner import GpuPlan, Plan

_CUDA_PLATFORMS = {"cuda", "gpu"}
_MAKE_CLIENT, _OPTIONS = "make_c_api_client", "generate_pjrt_gpu_plugin_options"
_FRACTION = "memory_fraction"


def watch(source: PlanSource) -> None:
    """Apply the plan of ``source`` when the imported JAX creates its GPU client.

    Raises TooLateError if JAX has already created it.
    """
    bridge: Any = sys.modules.get(ENTRANCES["jax"].module)
    names = ENTRANCES["jax"].functions
    name = next((name for name in names if hasattr(bridge, name)), None)
    if name is not None and is_watched(bridge, name):
        return
    if has_gpu_backend():
        raise too_late()
    client = getattr(bridge, "xla_client", None)
    if name is None or not hasattr(client, _MAKE_CLIENT):
        lacking = f"{ENTRANCES['jax'].module}.{names[0]}, or no xla_client.{_MAKE_CLIENT}"
        why = f"this version of JAX has no {lacking}: its limit was computed when it was imported"
        setting = Setting("jax memory limit", "bound when JAX creates its client", None, why)
        source.record(setting)
        say(str(setting))
        return
    _Watch(source, bridge).install(name)


class _Watch:
    """The wrappers around one imported JAX."""

    def __init__(self, source: PlanSource, bridge: Any) -> None:
        self._source = source
        self._bridge = bridge
        self._refused: ValueError | None = None
        self._new_clients: list[Callable[[], None]] = []

    def install(self, discovery: str) -> None:
        """Wrap the functions; discovery comes last, in case an attempt is interrupted."""
        client = self._bridge.xla_client
        if hasattr(client, _OPTIONS):
            wrap_call(client, _OPTIONS, self._read_options)
        wrap_call(client, _MAKE_CLIENT, self._make_client)
        wrap_call(self._bridge, "backends", self._make_backends)
        wrap_call(self._bridge, discovery, self._discover)

    def _discover(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if getattr(self._bridge, "_backends", None):
            return original(*args, **kwargs)
        if _will_use_cuda():  # here, because JAX replaces an error raised at its client
            self._hold(_visible(self._bridge))
        else:
            self._source.bind(lambda _plan: None, only_lists=True)
        self._refused = None
        found = original(*args, **kwargs)
        if self._refused is not None:
            raise BackendError(
                f"JAX cannot use the GPU: {self._refused}",
                hint="gpuconf doctor, or unset the variable",
            ) from self._refused
        return found

    def _read_options(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call JAX, but keep the error for a bad value; JAX only logs it, then uses the CPU."""
        try:
            return original(*args, **kwargs)
        except ValueError as error:
            self._refused = error
            raise

    def _make_client(
        self,
        original: Callable[..., Any],
        plugin_name: str,
        options: Mapping[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if plugin_name not in _CUDA_PLATFORMS:
            return original(plugin_name, options, *args, **kwargs)
        plan = self._hold((options or {}).get("visible_devices"))
        if plan is None:
            return original(plugin_name, options, *args, **kwargs)
        held = self._held(options or {}, share_of_plan(plan))
        client = original(plugin_name, held, *args, **kwargs)
        option = str(held.get("allocator") or "")  # the variable's value, or the caller's own
        void = unenforced_limit(os.environ) or why_no_cap(
            option, setting="the client option allocator"
        )
        for setting in _read_back(client, plan.gpus, void):
            self._source.record(setting)
            if setting.why_not and (void is None or void != unenforced_limit(os.environ)):
                say(str(setting))  # effects of the variables were already reported with the plan
        self._new_clients.append(lambda: take_reserve(client, plan.gpus, self._source, void))
        return client

    def _make_backends(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Allocate the reserve of a new client, now that JAX can run computations on it."""
        found = original(*args, **kwargs)
        try:
            allocate = self._new_clients.pop()
        except IndexError:
            return found
        try:
            allocate()
        except Exception as error:  # what we read must never end the user's program
            why = f"{type(error).__name__}: {error}"
            self._source.record(Setting("jax reserve", "yes", "no", why))
        return found

    def _hold(self, visible: Sequence[int] | None) -> Plan | None:
        """Bind the plan, and register this process on the planned GPUs that JAX can see."""
        plans: list[Plan] = []
        self._source.bind(plans.append)
        if not plans:
            return None
        gpus = plans[-1].gpus
        if visible is not None:
            gpus = tuple(gpus[index] for index in visible if 0 <= index < len(gpus))
        self._source.use([gpu.gpu.uuid for gpu in gpus if gpu.gpu.uuid])
        return plans[-1]

    def _held(self, options: Mapping[str, Any], share: float | None) -> Mapping[str, Any]:
        """Limit ``options`` to ``share``; keep a smaller fraction that the program has set."""
        asked = options.get(_FRACTION)
        if share is None or isinstance(asked, str):  # XLA itself rejects a string
            return options
        if asked is not None and is_within(asked, share):
            return {**options, _FRACTION: min(asked, share)}
        if asked is not None:
            setting = Setting(f"jax {_FRACTION}", f"{asked:g}", f"{share:.9g}", _over_the_plan())
            self._source.record(setting)
            say(str(setting))
        return {**options, _FRACTION: share}


def _will_use_cuda() -> bool:
    """Whether JAX is about to create a GPU client, as far as can be known in advance.

    It does if its CUDA plugin is installed, unless only other platforms are requested.
    """
    config = sys.modules.get("jax._src.config")
    asked = getattr(getattr(config, "jax_platforms", None), "value", None)
    if asked is None:
        asked = os.environ.get("JAX_PLATFORMS", "")
    platforms = {each.strip().lower() for each in str(asked).split(",") if each.strip()}
    if platforms and not platforms & _CUDA_PLATFORMS:
        return False
    spec = importlib.util.find_spec("jax_plugins")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return any(
        name.startswith("xla_cuda")
        for folder in folders
        if os.path.isdir(folder)
        for name in os.listdir(folder)
    )


def _visible(bridge: Any) -> Sequence[int] | None:
    """Return the GPUs in ``jax_cuda_visible_devices``; None for all."""
    said = getattr(getattr(bridge, "CUDA_VISIBLE_DEVICES", None), "value", "all")
    numbers = str(said).split(",")
    return [int(each) for each in numbers] if all(map(str.isdigit, numbers)) else None


def _over_the_plan() -> str:
    site = user_call_site()
    where = f", by {site}" if site else ""
    return f"the plan does not allow more for the client created now{where}"


def _read_back(client: Any, gpus: Sequence[GpuPlan], void: str | None) -> list[Setting]:
    """Compare the plan's limit for each of the client's GPUs with the allocator's limit.

    ``void`` is the reason why that limit is not a cap; None if it is.
    """
    settings = []
    for device in client.local_devices():
        number = getattr(device, "local_hardware_id", device.id)
        limit = gpus[number].limit_of("jax") if number < len(gpus) else None
        if limit is None or limit.limit_bytes is None:
            continue
        found = (device.memory_stats() or {}).get("bytes_limit")
        why = void
        if why is None and found is not None and found > limit.limit_bytes:
            why = "JAX's allocator has its own limit"
        name = f"jax cuda:{number} memory limit"
        shown = None if found is None else sized(found)
        settings.append(Setting(name, sized(limit.limit_bytes), shown, why))
    return settings
