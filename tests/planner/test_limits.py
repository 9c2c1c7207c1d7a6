"""How much of one card a process may take: the sum, its terms, and the lines that show it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuconf.hardware.inventory import Gpu, GpuProcess
from gpuconf.planner import GpuPlan
from gpuconf.planner.limits import plan_gpu
from gpuconf.profile.model import GpuRules, MemoryRules
from gpuconf.units import GIB, MIB, Amount
from tests.planner.cards import SHARED_DESKTOP, amount, card, plan, share

KNOWN = card()
NO_FIGURES = card(total=None, free=None)


def limited(gpu: Gpu, **memory: object) -> GpuPlan:
    """The plan of ``gpu`` with these memory rules."""
    return plan_gpu(gpu, GpuRules(MemoryRules(**memory)))  # type: ignore[arg-type]


def limit_mib(made: GpuPlan) -> int | None:
    """The limit in MiB, which must come out whole."""
    if made.limit_bytes is None:
        return None
    assert made.limit_bytes % MIB == 0
    return made.limit_bytes // MIB


def test_the_story_comes_out_with_its_whole_sum() -> None:
    """0.7 of 11264 MiB with 9319 free and 1 GiB kept: 7783 MiB, and every step is shown."""
    (made,) = plan(SHARED_DESKTOP, KNOWN).gpus
    assert limit_mib(made) == 7783
    assert made.arithmetic == (
        "fraction 0.7 × 11264 MiB total = 7884 MiB",
        "9319 MiB free - 1024 MiB keep_free - 512 MiB context = 7783 MiB",
        "limit = min(7884 MiB, 7783 MiB) = 7783 MiB",
        "lease = 7783 MiB limit + 512 MiB context = 8295 MiB",
    )
    assert made.shortage is None
    assert made.allow_growth is True
    assert made.fraction == 0.7


def test_several_processes_have_equal_parts_of_what_is_free() -> None:
    """Each of two: half of what is free beside the display, less its own context; leased twice."""
    (made,) = plan(SHARED_DESKTOP._replace(processes=2), KNOWN).gpus
    assert limit_mib(made) == 3635
    assert made.arithmetic[1:] == (
        "(9319 MiB free - 1024 MiB keep_free) / 2 processes - 512 MiB context = 3635 MiB",
        "limit = min(7884 MiB, 3635 MiB) = 3635 MiB",
        "lease = 2 × (3635 MiB limit + 512 MiB context) = 8294 MiB",
    )
    assert made.lease_bytes == 2 * (3635 + 512) * MIB


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


@pytest.mark.parametrize(
    ("fraction", "limit", "keep_free", "expected"),
    [
        (None, None, None, None),
        (0.5, None, None, 5632),
        (0.9, None, None, 8807),  # of the total, so more than is free less the context of 512
        (None, amount(4096), None, 4096),
        (None, amount(10000), None, 8807),
        (None, share(50), None, 5632),
        (None, None, amount(1536), 7271),
        (None, None, share(10), 7680),  # 9319 - 1126.4 - 512, cut to whole MiB
        (0.5, amount(4096), None, 4096),
        (0.5, amount(6000), amount(1024), 5632),
        (0.9, None, amount(1024), 7783),
        (0.9, amount(2048), amount(8488), 319),
        (None, amount(0), None, 0),
        (None, None, amount(0), 8807),
        (None, None, amount(8807), 0),
        (None, None, amount(9319), 0),
        (None, None, amount(12000), 0),
    ],
)
def test_the_smallest_term_rules(
    fraction: float | None, limit: Amount | None, keep_free: Amount | None, expected: int | None
) -> None:
    """Each term alone, and together: the limit is their minimum, and what is free is always one."""
    made = limited(
        KNOWN, per_process_gpu_memory_fraction=fraction, memory_limit=limit, keep_free=keep_free
    )
    assert limit_mib(made) == expected


@pytest.mark.parametrize(
    ("gpu", "rules", "expected", "line"),
    [
        (NO_FIGURES, {"per_process_gpu_memory_fraction": 0.7}, None, "the total is unknown"),
        (NO_FIGURES, {"keep_free": amount(1024)}, None, "the free memory is unknown"),
        (NO_FIGURES, {"memory_limit": amount(4096)}, 4096, "memory_limit 4GiB = 4096 MiB"),
        (NO_FIGURES, {"memory_limit": share(50)}, None, "50%: dropped, the total is unknown"),
        (card(free=None), {"per_process_gpu_memory_fraction": 0.5}, 5632, "0.5 × 11264 MiB"),
        (card(free=None), {"keep_free": amount(1)}, None, "the free memory is unknown"),
        (card(total=None), {"keep_free": amount(1024)}, 7783, "9319 MiB free - 1024 MiB"),
        (card(total=None), {"keep_free": share(10)}, None, "dropped, the total is unknown"),
    ],
)
def test_a_term_without_its_figures_drops_out_and_a_line_says_so(
    gpu: Gpu, rules: dict[str, object], expected: int | None, line: str
) -> None:
    """Unknown is never 0: the other terms still hold, and the missing figure is named."""
    made = limited(gpu, **rules)
    assert limit_mib(made) == expected
    assert any(line in shown for shown in made.arithmetic)
    assert made.shortage is None
    if expected is None:
        assert made.arithmetic[-1] == "no limit: the framework may use all free GPU memory"


def test_a_tenth_of_unified_memory_stays_for_the_host() -> None:
    """It comes off what is free, and counts in what a shortage says is needed."""
    shared = KNOWN._replace(is_unified=True)
    made = limited(shared, context=amount(0))
    assert made.limit_bytes == 8192 * MIB  # 9319 - 1126.4
    assert "9319 MiB free - 1126 MiB for the host - 0 MiB context = 8192 MiB" in made.arithmetic
    short = limited(shared, context=amount(0), at_least=amount(9000))
    assert short.shortage == (
        "9319 MiB free; 10126 MiB needed "
        "(1126 MiB for the host + 0 MiB context + 9000 MiB at_least)"
    )


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


@pytest.mark.parametrize(
    ("gpu", "at_least", "rules", "shortage", "can_ever_fit"),
    [
        (KNOWN, amount(9319), {}, None, True),
        (
            KNOWN,
            amount(9320),
            {},
            "9319 MiB free; at_least is 9320 MiB",
            True,
        ),
        (KNOWN, amount(11264), {}, "9319 MiB free; at_least is 1126", True),
        (KNOWN, amount(11265), {}, "9319 MiB free; at_least is 1126", False),
        (
            KNOWN,
            share(50),
            {"memory_limit": amount(5000)},
            "limit 5000 MiB; at_least is 5632 MiB",
            False,
        ),
        (KNOWN, amount(8000), {"per_process_gpu_memory_fraction": 0.5}, "5632 MiB", False),
        (
            KNOWN,
            amount(8752),
            {"keep_free": amount(2000)},
            "9319 MiB free; 11264 MiB needed",
            True,
        ),
        (
            KNOWN,
            amount(8753),
            {"keep_free": amount(2000)},
            "limit 6807 MiB; at_least is 8753 MiB",
            False,
        ),
        (KNOWN, None, {"memory_limit": amount(0)}, "limit 0 MiB", False),
        (card(free=0), None, {"memory_limit": amount(4096)}, "0 MiB free", True),
        (card(free=0), None, {}, "0 MiB free", True),
        (NO_FIGURES, amount(9000), {}, None, True),
        (
            NO_FIGURES,
            amount(9000),
            {"memory_limit": amount(4096)},
            "limit 4096 MiB; at_least is 9000 MiB",
            False,
        ),
        (NO_FIGURES, share(50), {}, None, True),
    ],
)
def test_at_least(
    gpu: Gpu,
    at_least: Amount | None,
    rules: dict[str, object],
    shortage: str | None,
    can_ever_fit: bool,
) -> None:
    """Less than at_least, or nothing at all, is a shortage; waiting is of use only if an idle
    card would do."""
    made = limited(gpu, at_least=at_least, **rules)
    assert (made.shortage is None) == (shortage is None)
    assert (shortage or "") in (made.shortage or "")
    assert made.can_ever_fit is can_ever_fit


@pytest.mark.parametrize(
    ("devices", "rules", "sizes", "line", "short"),
    [
        (
            (amount(2048), amount(2048)),
            {"memory_limit": amount(6144)},
            [2048, 2048],
            "virtual_devices 2048 + 2048 = 4096 MiB ≤ 6144 MiB limit",
            None,
        ),
        (
            (share(50), share(50)),
            {"memory_limit": amount(6145)},
            [3072, 3072],
            "virtual_devices 3072 + 3072 = 6144 MiB ≤ 6145 MiB limit",
            None,
        ),
        (
            (share(25), amount(2048)),
            {"memory_limit": amount(4096)},
            [1024, 2048],
            "virtual_devices 1024 + 2048 = 3072 MiB ≤ 4096 MiB limit",
            None,
        ),
        (
            (amount(5000), amount(5000)),
            {},
            [5000, 5000],
            "virtual_devices 5000 + 5000 = 10000 MiB > 8807 MiB limit",
            ("virtual_devices need 5000 + 5000 = 10000 MiB > 8807 MiB limit", True),
        ),
        (
            (amount(3000), amount(3000)),
            {"memory_limit": share(50)},
            [3000, 3000],
            "virtual_devices 3000 + 3000 = 6000 MiB > 5632 MiB limit",
            ("virtual_devices need 3000 + 3000 = 6000 MiB > 5632 MiB limit", False),
        ),
        (
            (share(0.001), share(99)),
            {"memory_limit": amount(4096)},
            [0, 4055],
            "virtual_devices 0 + 4055 = 4055 MiB ≤ 4096 MiB limit",
            ("a device gets 0 MiB", False),
        ),
    ],
)
def test_virtual_devices_are_held_against_the_limit(
    devices: tuple[Amount, ...],
    rules: dict[str, object],
    sizes: list[int],
    line: str,
    short: tuple[str, bool] | None,
) -> None:
    """Sizes and shares become whole MiB, their sum is shown, and what does not fit is short."""
    memory = MemoryRules(**rules)  # type: ignore[arg-type]
    made = plan_gpu(KNOWN, GpuRules(memory, devices))
    assert [size // MIB for size in made.logical_devices_bytes] == sizes
    assert line in made.arithmetic
    assert (made.shortage, made.can_ever_fit) == (short or (None, True))


def test_virtual_devices_without_figures() -> None:
    """Without figures sizes are taken as they are, and shares of an unknown limit drop out."""
    sized = plan_gpu(NO_FIGURES, GpuRules(virtual_devices=(Amount(2 * GIB), Amount(GIB))))
    assert sized.logical_devices_bytes == (2 * GIB, GIB)
    assert sized.limit_bytes is None
    assert "virtual_devices 2048 + 1024 = 3072 MiB" in sized.arithmetic
    shared = plan_gpu(NO_FIGURES, GpuRules(virtual_devices=(share(50), share(50))))
    assert shared.logical_devices_bytes == ()
    assert "virtual_devices in % of an unknown limit: dropped" in shared.arithmetic
    assert sized.shortage is shared.shortage is None


def test_a_whole_number_of_mib_is_not_lost_to_floats() -> None:
    """0.29 of 100 MiB is 29 MiB, though floats make it a little less."""
    gpu = card(total=100, free=100)
    assert limit_mib(limited(gpu, per_process_gpu_memory_fraction=0.29, context=amount(0))) == 29


def test_what_this_process_holds_is_not_somebody_elses() -> None:
    """Its own memory is what it may have again; another process's is not."""
    holders = (GpuProcess(1, 2000 * MIB), GpuProcess(2, 1000 * MIB))
    gpu = Gpu(0, total_bytes=8000 * MIB, free_bytes=5000 * MIB, processes=holders)
    rules = GpuRules(MemoryRules(keep_free=amount(400), context=amount(100)))
    assert plan_gpu(gpu, rules).limit_bytes == 4500 * MIB
    own = plan_gpu(gpu.with_own_bytes(1), rules)
    assert own.limit_bytes == 6500 * MIB
    assert "5000 MiB free + 2000 MiB held by this process" in own.arithmetic[0]
