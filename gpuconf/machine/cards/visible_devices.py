"""Which GPUs a CUDA program sees for a given ``CUDA_VISIBLE_DEVICES``; pure, no driver calls.

Sources:

- CUDA C++ programming guide, "CUDA environment variables": unset means all, empty means none;
  entries are indices, UUIDs as nvidia-smi prints them, or a UUID prefix that no other GPU shares;
  an invalid index hides everything after it (``0,2,-1,1`` shows 0 and 2); indices count
  FASTEST_FIRST unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
- NVIDIA MIG user guide, "CUDA device enumeration": before R570 a process sees one MIG instance
  and then no other GPU at all; since R570 it sees one compute instance of each GPU instance, plus
  whole GPUs.  MIG UUIDs are ``MIG-<uuid>``.
- PyTorch's emulation of the driver (``torch.cuda._parse_visible_devices``, pytorch#90543,
  #92315), and its tests: numbers are parsed like C's strtol, so ``1gpu`` is 1 and `` 1`` is 1; a
  repeat leaves no device at all; after an index a UUID ends the list, and vice versa.
- Runs on eight real GPUs in pytorch#92315: UUID prefixes work, and a repeat after an invalid
  entry is harmless.  Ranges such as ``0-2`` are not supported (pytorch#84879).

These are guesses: spaces before a UUID are not skipped; ``GPU-`` must be in capitals but its
hexadecimal digits may be in either case; a MIG GPU named by index or by the GPU's UUID means its
first instance. tests/machine/cards/test_hardware_on_gpu.py checks them against a real driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.machine.cards.inventory import Gpu

HIDE_ALL = "-1"
_LARGEST_INDEX = 999_999_999
_UUID_STARTS = ("GPU-", "MIG-")
_SEVERAL_INSTANCES_SINCE = 570  # the driver's major version

# strtol: leading white space, a sign, decimal digits; anything after them is ignored.
_LEADING_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)")


class VisibleDevices(NamedTuple):
    """The devices that a CUDA program sees.

    ``devices`` are in CUDA's order: the first is its device 0. For a MIG instance, the instance
    itself is listed, not its GPU. ``entries`` are the strings that named them, one per device,
    empty if the variable is unset. ``ignored`` holds the entries that named no device, each with
    the reason. If ``order_certain`` is False, an index may mean a different GPU from the one given
    here.
    """

    devices: tuple[Gpu, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    order_certain: bool = True
    entries: tuple[str, ...] = ()


class _NamesNothingError(Exception):
    """An entry names no device; the message says why."""


def resolve(
    value: str | None,
    gpus: Sequence[Gpu],
    *,
    device_order: str | None = None,
    driver_version: str | None = None,
) -> VisibleDevices:
    """Return the devices that CUDA shows for ``value``, the text of CUDA_VISIBLE_DEVICES.

    ``value`` None means an unset variable. ``gpus`` are the machine's GPUs, in NVML order;
    ``device_order`` is the text of CUDA_DEVICE_ORDER. ``driver_version`` (as reported by NVML)
    determines how many MIG instances a process sees; an unknown version counts as R570 or newer.

    Accepts any text: entries that CUDA would not understand end up in ``ignored``, with a reason.
    """
    seen = VisibleDevices(_everything(gpus)) if value is None else _read_list(value, gpus)
    by_index = value is None or any(_is_number(entry) for entry in seen.entries)
    if by_index and not _order_is_certain(gpus, device_order):
        seen = seen._replace(order_certain=False)
    return _only_what_mig_allows(seen, driver_version)


def narrow(visible: VisibleDevices, wanted: Sequence[Gpu]) -> str:
    """Return the CUDA_VISIBLE_DEVICES value that leaves only the ``wanted`` devices of ``visible``.

    A scheduler's choice is narrowed, never widened: a wanted device that is not visible stays
    hidden. A MIG GPU means all its instances.  The order is the same as in ``visible``.  If it is
    uncertain which GPU an index means, or a UUID is unknown, the entries are kept as written, so
    that another job's GPU cannot appear.
    """
    names = {part.identity for gpu in wanted for part in (gpu, *gpu.mig_instances)}
    kept = [place for place, gpu in enumerate(visible.devices) if gpu.identity in names]
    devices = [visible.devices[place] for place in kept]
    if not visible.entries or (visible.order_certain and not needs_pci_order(devices)):
        return visible_devices_value(devices)
    return ",".join(visible.entries[place] for place in kept) or HIDE_ALL


def visible_devices_value(devices: Sequence[Gpu]) -> str:
    """Return the CUDA_VISIBLE_DEVICES value, made of UUIDs, that shows just ``devices``, in order.

    If a UUID is unknown, all are written as indices, since CUDA does not accept both in one list.
    Indices refer to these GPUs only with ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` (see `needs_pci_order`).
    If there are no devices, the value is ``-1``.
    """
    if needs_pci_order(devices):
        return ",".join(str(gpu.index) for gpu in devices)
    return ",".join(gpu.uuid or "" for gpu in devices) or HIDE_ALL


def needs_pci_order(devices: Sequence[Gpu]) -> bool:
    """Whether `visible_devices_value` must write indices, which require CUDA_DEVICE_ORDER."""
    return any(not gpu.uuid for gpu in devices)


def match_uuid(beginning: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs and MIG instances whose UUID has this prefix; an exact match wins.

    An empty result means that the UUID is unknown; two or more mean that it is ambiguous.
    Hexadecimal digits match in either case; ``GPU-`` and ``MIG-`` are case-sensitive.
    """
    devices = [device for gpu in gpus for device in (gpu, *gpu.mig_instances) if device.uuid]
    text = beginning.lower()
    if not beginning.startswith(_UUID_STARTS):
        return ()
    named = [device for device in devices if (device.uuid or "").lower().startswith(text)]
    equal = [device for device in named if (device.uuid or "").lower() == text]
    return tuple(equal[:1] or named)


def _order_is_certain(gpus: Sequence[Gpu], device_order: str | None) -> bool:
    """Whether CUDA numbers these GPUs as NVML does.

    For GPUs of the same model, FASTEST_FIRST has nothing to sort and keeps PCI order. The order in
    which CUDA lists MIG instances among GPUs is not documented.
    """
    if any(gpu.mig_enabled for gpu in gpus):
        return len(_everything(gpus)) < 2
    kinds = {(gpu.name, gpu.compute_capability) for gpu in gpus}
    alike = len(kinds) == 1 and gpus[0].name is not None
    return device_order == "PCI_BUS_ID" or alike or len(gpus) < 2


def _is_number(entry: str) -> bool:
    return _LEADING_NUMBER.match(entry) is not None


def _everything(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return everything CUDA could show: whole GPUs, and the instances of MIG GPUs."""
    return tuple(
        device for gpu in gpus for device in (gpu.mig_instances if gpu.mig_enabled else (gpu,))
    )


def _read_list(value: str, gpus: Sequence[Gpu]) -> VisibleDevices:
    devices: list[Gpu] = []
    entries = value.split(",") if value else []
    by_index = bool(entries) and _is_number(entries[0])
    for place, entry in enumerate(entries):
        try:
            device = _find(entry, gpus, by_index=by_index)
        except _NamesNothingError as error:
            rest = ((after, "it comes after the end of the list") for after in entries[place + 1 :])
            ignored = ((entry, str(error)), *rest)
            return VisibleDevices(tuple(devices), ignored, entries=tuple(entries[:place]))
        if device.identity in {earlier.identity for earlier in devices}:
            reason = f"{entry!r} names a device a second time, so CUDA detects no device"
            return VisibleDevices(ignored=tuple((every, reason) for every in entries))
        devices.append(device)
    return VisibleDevices(tuple(devices), entries=tuple(entries))


def _find(entry: str, gpus: Sequence[Gpu], *, by_index: bool) -> Gpu:
    """Return the device that ``entry`` names; raise `_NamesNothingError` if it names none."""
    if _is_number(entry):
        if not by_index:
            raise _NamesNothingError("an index after a UUID ends the list")
        return _first_instance(_by_index(entry, gpus))
    if by_index and entry.startswith(_UUID_STARTS):
        raise _NamesNothingError("a UUID after an index ends the list")
    return _first_instance(_by_uuid(entry, gpus))


def _by_index(entry: str, gpus: Sequence[Gpu]) -> Gpu:
    match = _LEADING_NUMBER.match(entry)
    sign, digits = match.groups() if match else ("", "")
    # Longer numbers overflow in C, and may be too long for Python's int().
    number = int(sign + digits) if len(digits) <= 9 else _LARGEST_INDEX
    if number < 0:
        raise _NamesNothingError("a negative index ends the list")
    for gpu in gpus:
        if gpu.index == number:
            return gpu
    raise _NamesNothingError(f"there is no GPU {sign}{digits[:20]}")


def _by_uuid(entry: str, gpus: Sequence[Gpu]) -> Gpu:
    named = match_uuid(entry, gpus)
    if len(named) == 1:
        return named[0]
    if named:
        raise _NamesNothingError(f"{len(named)} devices have a UUID that starts with it")
    raise _NamesNothingError(_why_unknown(entry))


def _why_unknown(entry: str) -> str:
    if entry != entry.strip():
        return "it has a space before or after it"
    if entry == "NoDevFiles":
        return "schedulers set it for a job without a GPU"
    if entry.startswith(_UUID_STARTS):
        return "no device has a UUID that starts with it"
    if entry.upper().startswith(_UUID_STARTS):
        return "GPU- and MIG- must be in capitals"
    return "it is neither an index nor a UUID that starts with GPU- or MIG-"


def _first_instance(gpu: Gpu) -> Gpu:
    """Return ``gpu`` itself or, for a MIG GPU, its first instance."""
    if not gpu.mig_enabled:
        return gpu
    if not gpu.mig_instances:
        raise _NamesNothingError("MIG is enabled on this GPU, but it has no instances")
    return gpu.mig_instances[0]


def _only_what_mig_allows(seen: VisibleDevices, driver_version: str | None) -> VisibleDevices:
    """Drop the devices that CUDA hides if MIG instances are among the devices."""
    instances = [device for device in seen.devices if device.mig_ids is not None]
    if not instances:
        return seen
    major = (driver_version or "").split(".")[0]
    if major.isdecimal() and int(major[:9]) < _SEVERAL_INSTANCES_SINCE:
        return _keep(seen, instances[:1], "before R570, a process detects only one MIG instance")
    first_of = {_gpu_instance(device): device for device in reversed(seen.devices)}
    kept = [device for device in seen.devices if first_of[_gpu_instance(device)] is device]
    return _keep(seen, kept, "CUDA shows only one compute instance per GPU instance")


def _gpu_instance(device: Gpu) -> object:
    """Return the unit in which a process sees one compute instance; for a whole GPU, the GPU
    itself."""
    return device.identity if device.mig_ids is None else (device.index, device.mig_ids[0])


def _keep(seen: VisibleDevices, kept: Sequence[Gpu], reason: str) -> VisibleDevices:
    """Keep only the devices in ``kept``; move the others to ``ignored`` with ``reason``."""
    names = {device.identity for device in kept}
    stay = [device.identity in names for device in seen.devices]
    texts = seen.entries or tuple(device.uuid or "a MIG instance" for device in seen.devices)
    dropped = tuple((text, reason) for text, stays in zip(texts, stay, strict=True) if not stays)
    return seen._replace(
        devices=tuple(device for device, stays in zip(seen.devices, stay, strict=True) if stays),
        entries=tuple(text for text, stays in zip(texts, stay, strict=True) if stays)
        if seen.entries
        else (),
        ignored=(*dropped, *seen.ignored),
    )
