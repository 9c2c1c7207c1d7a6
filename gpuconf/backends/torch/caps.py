"""Caps on PyTorch's caching allocator: set when CUDA is initialized, then kept and read back.

torch computes the cap as a fraction of its own total for the device, which on some GPUs is less
than NVML's, so the fraction is computed here from torch's total.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuconf.backends.torch.environment import UNCACHED, options_of, unenforced_limit
from gpuconf.backends.wrapping import is_watched, wrap_call
from gpuconf.basics.callsite import user_call_site
from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import say
from gpuconf.basics.units import MIB, sized
from gpuconf.injected.sizes import exact_share
from gpuconf.planner import GpuPlan, Plan

Record = Callable[[Setting], None]

# The functions of torch._C behind those of torch.cuda.memory, which looks them up on each call.
# One pair sets and reads the cap; the other switches and queries the caching allocator, without
# which every later tensor comes straight from the driver.  torch 2.4 cannot read the cap, 2.6 can.
_SET, _GET = "_cuda_setMemoryFraction", "_cuda_getMemoryFraction"
_SWITCH, _IS_ON = "_cuda_cudaCachingAllocator_enable", "_cuda_cudaCachingAllocator_is_enabled"


class Cap(NamedTuple):
    """A plan's limit for a device, torch's total, and whether free memory is reported within it."""

    profile: str
    limit_bytes: int
    total_bytes: int
    is_reported: bool = True

    @property
    def fraction(self) -> float:
        """The fraction that torch converts back to the limit."""
        return exact_share(self.limit_bytes, self.total_bytes)


# torch's device number -> its cap.  There is one torch per process.
_caps: dict[int, Cap] = {}


def put(torch: Any, plan: Plan, record: Record) -> None:
    """Cap torch's caching allocator on every planned GPU; CUDA is already initialized.

    A smaller fraction that is already active, for example from PYTORCH_ALLOC_CONF, is kept.
    """
    earlier = dict(_caps)
    _caps.clear()
    _hold(torch, record)
    for index, limit_bytes in limits_of(torch, plan):
        total_bytes = torch.cuda.get_device_properties(index).total_memory
        is_reported = (
            plan.profile.torch.report_free != "device" and unenforced_limit(os.environ) is None
        )
        cap = Cap(plan.profile.name, limit_bytes, total_bytes, is_reported)
        _caps[index] = cap
        try:
            if has_own_allocator(torch):
                raise NotImplementedError("the program's own allocator does not support a limit")
            in_force = _bytes_in_force(torch, index, cap)
            own = index not in earlier or in_force != earlier[index].limit_bytes
            if in_force is None or in_force > limit_bytes or not own:
                torch.cuda.set_per_process_memory_fraction(cap.fraction, index)
        except (RuntimeError, NotImplementedError) as error:  # the program uses its own allocator
            _caps[index] = cap._replace(is_reported=False)
            why = str(error).partition("\n")[0]
            setting = Setting(_name(index), sized(limit_bytes), None, why)
            say(str(setting))
            record(setting)
        else:
            record(_read_back(torch, index, cap))
    if _caps:
        _switch_on(torch, plan, record)
        is_reported = all(cap.is_reported for cap in _caps.values())
        within = "within the limit" if is_reported else "the device's"
        record(Setting("torch free memory", within, within))
    for setting in _options_read_back(torch, plan):
        record(setting)


def has_own_allocator(torch: Any) -> bool:
    """Whether the program has replaced torch's allocator.  If so, torch 2.15 limits nothing."""
    backend = getattr(torch.cuda, "get_allocator_backend", None)  # since torch 2.0
    return backend is not None and backend() == "pluggable"


def _switch_on(torch: Any, plan: Plan, record: Record) -> None:
    """Re-enable the caching allocator if the script had disabled it before CUDA was initialized.

    Some versions, such as 2.9, cannot report whether it was disabled.
    """
    is_on = getattr(torch._C, _IS_ON, None)
    if os.environ.get(UNCACHED) or not hasattr(torch._C, _SWITCH) or (is_on and is_on()):
        return
    getattr(torch._C, _SWITCH)(True)
    if is_on is None:
        return
    why = f"profile {plan.profile.name} allows no more than its limit"
    setting = Setting("torch caching allocator", "off, which has no limit", "on", why)
    record(setting)
    say(str(setting))


def reported_limit(torch: Any, index: int) -> int | None:
    """Return the limit within which a device's free memory is reported; None if none applies."""
    cap = _caps.get(index)
    return None if cap is None or not cap.is_reported else limit_in_force(torch, index)


def limit_in_force(torch: Any, index: int) -> int | None:
    """Return the smaller of the plan's and torch's limits for a device; None without a plan."""
    cap = _caps.get(index)
    if cap is None:
        return None
    in_force = _bytes_in_force(torch, index, cap)
    return cap.limit_bytes if in_force is None else min(in_force, cap.limit_bytes)


def reserved_bytes(torch: Any, index: int) -> int:
    """Return what torch's allocator has reserved; ``memory_reserved`` is 0 while CUDA starts."""
    return int(torch._C._cuda_memoryStats(index)["reserved_bytes"]["all"]["current"])


def limits_of(torch: Any, plan: Plan) -> list[tuple[int, int]]:
    """Return the index of each torch device that has a limit, and the limit in bytes.

    A device that is not in the plan gets the smallest limit in the plan.
    """
    planned = dict(devices(torch, plan.gpus))
    any_gpu = [plan.unknown_gpu] if plan.unknown_gpu else []
    found = []
    for index in range(torch.cuda.device_count()):
        total_bytes = torch.cuda.get_device_properties(index).total_memory
        own = [planned[index]] if index in planned else plan.gpus or any_gpu
        limits = [_limit_bytes(gpu, total_bytes) for gpu in own]
        limit = min((each for each in limits if each is not None), default=None)
        if limit is not None:
            found.append((index, limit))
    return found


def _limit_bytes(gpu: GpuPlan, total_bytes: int) -> int | None:
    share = gpu.unsized_fraction
    return gpu.limit_bytes if share is None else int(share * total_bytes)


def devices(torch: Any, planned: Sequence[GpuPlan]) -> list[tuple[int, GpuPlan]]:
    """Return torch's index for each planned GPU: by UUID if torch has them, else by position."""
    count = torch.cuda.device_count()
    uuids = [
        str(getattr(torch.cuda.get_device_properties(index), "uuid", "")).lower()
        for index in range(count)
    ]
    found = []
    for place, gpu in enumerate(planned):
        own = (gpu.gpu.uuid or "").lower().removeprefix("gpu-")
        index = uuids.index(own) if own in uuids else place
        if index < count:
            found.append((index, gpu))
    return found


def _name(index: int) -> str:
    return f"torch cuda:{index} memory limit"


def _bytes_in_force(torch: Any, index: int, cap: Cap) -> int | None:
    """Return the memory that torch says it may use on the device; None if it does not say.

    With ``backend:cudaMallocAsync`` the cap can be set but not read.
    """
    get = getattr(torch._C, _GET, None)
    try:
        return None if get is None else round(get(index) * cap.total_bytes)
    except (RuntimeError, NotImplementedError):
        return None


def _read_back(torch: Any, index: int, cap: Cap) -> Setting:
    """Compare the plan's limit for the device with torch's."""
    asked, in_force = sized(cap.limit_bytes), _bytes_in_force(torch, index, cap)
    if in_force is None:
        return Setting(_name(index), asked, f"{asked}; torch cannot report it")
    why = None
    if in_force > cap.limit_bytes:
        why = f"torch has a limit of {in_force} bytes, but {cap.limit_bytes} were set"
    reserved = torch.cuda.memory_reserved(index)
    got = sized(in_force) + (f", of which it had {sized(reserved)}" if reserved else "")
    return Setting(_name(index), asked, got, why)


def _options_read_back(torch: Any, plan: Plan) -> list[Setting]:
    """Compare the profile's options with those of torch's allocator."""
    wanted = options_of(plan.profile)
    if not wanted:
        return []
    try:
        found = torch.cuda.memory._snapshot()["allocator_settings"]
    except (RuntimeError, NotImplementedError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        return [Setting(f"torch {key}", wish, None, reason) for key, (_, wish) in wanted.items()]
    settings = []
    for key, (_, wish) in wanted.items():
        got = str(found[key] // MIB if key == "max_split_size" else found[key])
        unit = " MiB" if key == "max_split_size" else ""
        read = found.get("PYTORCH_CUDA_ALLOC_CONF") or "nothing"
        why = None if got == wish else f"torch read {read} from its variable"
        settings.append(Setting(f"torch {key}", wish + unit, got + unit, why))
    return settings


def _number(read: Callable[[Any], Any], value: Any) -> Any:
    """Convert ``value`` with ``read``; return None if torch itself rejects it."""
    try:
        return read(value)
    except (TypeError, ValueError, RuntimeError):
        return None


# --- guards against the script's own settings -----------------------------------------------


def _hold(torch: Any, record: Record) -> None:
    """From now on, prevent caps above the plan's and attempts to disable the caching allocator."""

    def say_held(function: str, asked: str, got: str, cap: Cap) -> None:
        site = user_call_site()
        where = f"{function} at {site}" if site else function
        setting = Setting(where, asked, got, f"profile {cap.profile} allows no more")
        record(setting)
        say(str(setting))

    def set_fraction(original: Callable[..., Any], fraction: Any, index: Any) -> Any:
        asked = _number(float, fraction)  # torch's C++ also takes numpy.float32(1) and a tensor
        number = _number(operator.index, index)
        cap = None if number is None else _caps.get(number)
        if cap is None or asked is None or number is None:
            return original(fraction, index)
        done = original(min(asked, cap.fraction), number)
        if asked > cap.fraction:
            wish = f"{sized(asked * cap.total_bytes)} of cuda:{number}"
            say_held("set_per_process_memory_fraction", wish, sized(cap.limit_bytes), cap)
        record(_read_back(torch, number, cap))
        return done

    def switch(original: Callable[..., Any], value: Any = True) -> Any:
        if value or not _caps:
            return original(value)
        cap = next(iter(_caps.values()))
        return say_held("caching_allocator_enable", "off, which has no limit", "on", cap)

    for name, wrapper in ((_SET, set_fraction), (_SWITCH, switch)):
        if hasattr(torch._C, name) and not is_watched(torch._C, name):
            wrap_call(torch._C, name, wrapper)
