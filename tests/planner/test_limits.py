"""How much of one GPU a process may take: the sum, its terms, and the lines that show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB, Amount, parse_amount
from gpuconf.machine.cards.inventory import Gpu, GpuProcess
from gpuconf.planner.limits import plan_gpu
from gpuconf.profile.model import GpuRules, MemoryRules
from tests.planner.cards import SHARED_DESKTOP, amount, card, lease, mib, plan

KNOWN = card()
CASES = yaml.safe_load(Path(__file__).with_name("limits.yaml").read_text(encoding="utf-8"))


def gpu_of(total: int | None = 11264, free: int | None = 9319, **more: Any) -> Gpu:
    """The GPU of a case."""
    gpu = card(total=total, free=free)
    leases = tuple(lease(size, used, pid=7) for size, used in more.get("leases", ()))
    capability = more.get("capability", (7, 5))
    return gpu._replace(
        compute_capability=capability and tuple(capability),
        leases=leases,
        own_bytes=more.get("own", 0) * MIB,
        is_unified=more.get("unified", False),
    )


def rules_of(case: dict[str, Any]) -> GpuRules:
    """The rules of a case; what is text is an amount, as in a profile."""
    memory: dict[str, Any] = {
        key: parse_amount(value) if isinstance(value, str) else value
        for key, value in case["memory"].items()
    }
    devices = tuple(map(parse_amount, case.get("devices", ())))
    return GpuRules(MemoryRules(**memory), devices, processes=case.get("processes", 1))


@pytest.mark.parametrize("group", CASES)
def test_what_rules_come_to(group: str) -> None:
    """Limit, lease, logical devices, shortage and the lines that show the sum: limits.yaml."""
    for case in CASES[group]:
        made = plan_gpu(gpu_of(**case.get("card", {})), rules_of(case))
        found = {
            "limit": mib(made.limit_bytes),
            "lease": made.lease_bytes and round(made.lease_bytes / MIB, 1),
            "least": mib(made.least_free_bytes),
            "sizes": [size / MIB for size in made.logical_devices_bytes],
            "can ever fit": made.can_ever_fit,
            "arithmetic": list(made.arithmetic),
        }
        expected = {key: value for key, value in case.items() if key in found}
        assert {key: found[key] for key in expected} == expected, case
        assert any(case.get("line", "") in line for line in made.arithmetic), case
        if "shortage" in case:
            assert (made.shortage is None) == (case["shortage"] is None), case
            assert (case["shortage"] or "") in (made.shortage or ""), case
        if case.get("limit", 0) is None and "devices" not in case:
            assert made.arithmetic[-1] == "no limit: the framework may use all free GPU memory"


def test_the_story_comes_out_with_its_whole_sum() -> None:
    """0.7 of 11264 MiB with 9319 free and 1 GiB kept: 7783 MiB, and every step is shown."""
    (made,) = plan(SHARED_DESKTOP, KNOWN).gpus
    assert mib(made.limit_bytes) == 7783
    assert made.arithmetic == (
        "fraction 0.7 × 11264 MiB total = 7884 MiB",
        "9319 MiB free - 1024 MiB keep_free - 512 MiB context = 7783 MiB",
        "limit = min(7884 MiB, 7783 MiB) = 7783 MiB",
        "lease = 7783 MiB limit + 512 MiB context = 8295 MiB",
    )
    assert made.shortage is None
    assert made.allow_growth is True
    assert made.fraction == 0.7


@given(
    processes=st.integers(1, 9),
    free=st.integers(0, 20 * GIB),
    keep=st.integers(0, 4 * GIB),
    least=st.integers(0, GIB),
)
def test_processes_never_lease_more_than_is_left(
    processes: int, free: int, keep: int, least: int
) -> None:
    """The lease of all is within what is free less keep_free, and what they need at least too."""
    memory = MemoryRules(keep_free=Amount(keep), at_least=Amount(least))
    gpu = KNOWN._replace(free_bytes=free)
    made = plan_gpu(gpu, GpuRules(memory, processes=processes))
    if made.shortage is None:
        assert made.lease_bytes is not None
        assert made.lease_bytes <= free - keep
        assert made.least_free_bytes <= free
    else:
        assert made.least_free_bytes > free


SIZES = st.integers(0, 64 * GIB)
AMOUNTS = st.one_of(
    st.none(), SIZES.map(Amount), st.floats(0, 1).map(lambda part: Amount(share=part))
)


RULES = st.builds(
    MemoryRules,
    per_process_gpu_memory_fraction=st.none() | st.floats(0.001, 1),
    memory_limit=AMOUNTS,
    keep_free=AMOUNTS,
    context=AMOUNTS,
    at_least=AMOUNTS,
    reserve=AMOUNTS,
)


@settings(deadline=None)
@given(total=st.none() | st.integers(1, 64 * GIB), free=st.none() | SIZES, rules=RULES)
def test_the_limit_is_never_above_any_known_term(
    total: int | None, free: int | None, rules: MemoryRules
) -> None:
    """Whatever is known holds, whole MiB come out, and nothing is negative."""
    made = plan_gpu(Gpu(0, total_bytes=total, free_bytes=free), GpuRules(rules)).limit_bytes
    fraction, limit = rules.per_process_gpu_memory_fraction, rules.memory_limit
    keep = 0 if rules.keep_free is None else rules.keep_free.of(total)
    context = 896 * MIB if rules.context is None else rules.context.of(total)  # generation unknown
    if made is None:
        assert not (fraction and total)
        assert not (limit and limit.of(total))
        of_free = rules.keep_free or rules.context
        assert not (of_free and free) or keep is None or context is None
        return
    assert made >= 0
    assert made % MIB == 0
    if fraction is not None and total is not None:
        assert made <= fraction * total + 1
    if limit is not None and limit.of(total) is not None:
        assert made <= (limit.of(total) or 0)
    if free is not None and keep is not None and context is not None:
        assert made <= max(free - keep - context, 0)


def test_what_this_process_holds_is_not_somebody_elses() -> None:
    """Its own memory is what it may have again; another process's is not."""
    holders = (GpuProcess(1, 2000 * MIB), GpuProcess(2, 1000 * MIB))
    gpu = Gpu(0, total_bytes=8000 * MIB, free_bytes=5000 * MIB, processes=holders)
    rules = GpuRules(MemoryRules(keep_free=amount(400), context=amount(100)))
    assert plan_gpu(gpu, rules).limit_bytes == 4500 * MIB
    own = plan_gpu(gpu.with_own_bytes(1), rules)
    assert own.limit_bytes == 6500 * MIB
    assert "5000 MiB free + 2000 MiB used by this process" in own.arithmetic[0]
