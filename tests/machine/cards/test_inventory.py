"""Questions that a GPU's figures answer."""

from __future__ import annotations

from gpuconf.basics.units import MIB
from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess

HOLDER, CHILD, STRANGER = (GpuProcess(pid, 100 * MIB, f"program{pid}") for pid in (5, 6, 7))


def test_memory_without_a_lease_is_strangers() -> None:
    """Neither a holder's nor its children's; a pid of another namespace names nobody here."""
    gpu = Gpu(index=0, processes=(HOLDER, CHILD, STRANGER))
    known = CardLease(5, 500 * MIB, pids=(5, 6))
    assert gpu._replace(leases=(known,)).unleased == (STRANGER,)
    silent = CardLease(5, 500 * MIB)
    assert gpu._replace(leases=(silent,)).unleased == (CHILD, STRANGER)
    elsewhere = silent._replace(is_elsewhere=True)
    assert gpu._replace(leases=(elsewhere,)).unleased == (HOLDER, CHILD, STRANGER)


def test_each_process_has_its_own_lease() -> None:
    """Then come the leases whose holders the driver does not list."""
    own, other = CardLease(5, 500 * MIB), CardLease(5, 500 * MIB, is_elsewhere=True)
    gpu = Gpu(index=0, processes=(HOLDER, STRANGER), leases=(own, other))
    assert gpu.holders == ((HOLDER, own), (STRANGER, None), (None, other))
