"""A GPU's health as NVML reports it; only `gpuconf doctor` reads it, not `import gpuconf.auto`.

This, `gpuconf.machine.cards.nvml` and `utilization` are the only modules that call the binding.
Here too, a value that a GPU or driver does not report is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gpuconf.machine.cards.inventory import Inventory
from gpuconf.machine.cards.nvml import ask, query, read_started

if TYPE_CHECKING:
    from types import ModuleType

# nvml.h: nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlComputeMode_t, NVML_FI_DEV_…,
# nvmlDeviceGpuRecoveryAction_t.  These are numbers because older bindings lack the names.
_UNCORRECTED, _VOLATILE = 1, 0
_UNREACHABLE = {4: "forbidden", 15: "lost"}  # nvmlReturn_t
_COMPUTE_MODES = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}
_RECOVERY_ACTION = 230
_RECOVERIES = {1: "reset", 2: "reboot", 3: "drain", 4: "drain", 6: "reset", 7: "reboot"}


class CardHealth(NamedTuple):
    """Signs of failing memory, and what keeps programs off a GPU.  Unknown is None.

    ``problem`` is lost or forbidden if the GPU cannot be queried at all. ``uncorrected_errors``
    counts the errors since the driver was loaded. ``retirement_pending`` (GPUs before Ampere) and
    ``remap_pending`` (Ampere and later) mean that a reset is due, and ``remap_failed`` that the
    GPU's spare rows are used up. ``compute_mode`` is default, exclusive or prohibited. ``recovery``
    is the action that the driver itself requests: reset, reboot, drain. ``ecc_enabled`` is None for
    GPUs without ECC.
    """

    problem: str | None = None
    ecc_enabled: bool | None = None
    uncorrected_errors: int | None = None
    retirement_pending: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    compute_mode: str | None = None
    recovery: str | None = None


def read_inventory_and_health() -> tuple[Inventory, dict[int, CardHealth]]:
    """Return the machine's GPUs, and the health of each by its index.

    Reads both in one NVML session, because starting NVML takes a second on a machine without
    persistence mode.  If NVML cannot be queried or does not answer in time, the Inventory says why
    and the dict is empty; a failing driver never raises.
    """
    return ask(None, _read_all, lambda problem: (Inventory.unknown(problem), {}))


def _read_all(nvml: ModuleType) -> tuple[Inventory, dict[int, CardHealth]]:
    inventory = read_started(nvml)
    return inventory, {gpu.index: _read(nvml, gpu.index) for gpu in inventory.gpus}


def _read(nvml: ModuleType, index: int) -> CardHealth:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        nvml.nvmlDeviceGetUUID(handle)
    except Exception as error:  # NVMLError, or one of the others listed in `query`
        code: object = getattr(error, "value", None)
        return CardHealth(problem=_UNREACHABLE.get(code) if isinstance(code, int) else None)
    ecc = query(nvml, "nvmlDeviceGetEccMode", handle)
    rows = query(nvml, "nvmlDeviceGetRemappedRows", handle)
    return CardHealth(
        ecc_enabled=None if ecc is None else bool(ecc[0]),
        uncorrected_errors=query(
            nvml, "nvmlDeviceGetTotalEccErrors", handle, _UNCORRECTED, _VOLATILE
        ),
        retirement_pending=_flag(query(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", handle)),
        remap_pending=None if rows is None else bool(rows[2]),
        remap_failed=None if rows is None else bool(rows[3]),
        compute_mode=_COMPUTE_MODES.get(query(nvml, "nvmlDeviceGetComputeMode", handle)),
        recovery=_read_recovery(nvml, handle),
    )


def _flag(answer: int | None) -> bool | None:
    return None if answer is None else bool(answer)


def _read_recovery(nvml: ModuleType, handle: Any) -> str | None:
    """Return the action that the driver (R570 and later) requests; None if none or unknown."""
    values = query(nvml, "nvmlDeviceGetFieldValues", handle, [_RECOVERY_ACTION])
    if not values or getattr(values[0], "nvmlReturn", 1) != 0:
        return None
    return _RECOVERIES.get(values[0].value.uiVal)
