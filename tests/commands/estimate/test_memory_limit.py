"""The limit of an estimate: as given, or as a profile gives it on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.estimate.budget import Budget
from gpuconf.commands.estimate.memory_limit import limit_and_budget
from gpuconf.errors import UsageError
from gpuconf.machine.cards import Gpu, Inventory
from tests.machine.cards import standin
from tests.machine.leases.ledgers import held, ledger_in
from tests.programs.processes import Nvml, run_python

GPU = Gpu(0, uuid="GPU-0", total_bytes=8 * GIB, free_bytes=6 * GIB, compute_capability=(8, 6))


def machine(*gpus: Gpu) -> Inventory:
    """A machine with these."""
    return Inventory(gpus, problem=None if gpus else "no NVIDIA driver")


def profile(folder: Path, text: str) -> str:
    """A profile's path."""
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_size_is_the_limit() -> None:
    """Whatever the machine has; its first GPU is told of, and without a size there is no limit."""
    read = lambda: machine(GPU)  # noqa: E731
    assert limit_and_budget(GIB, None, read=read) == (GIB, Budget("--limit", gpu=GPU))
    assert limit_and_budget(None, None, read=read) == (None, Budget(gpu=GPU))
    assert limit_and_budget(None, None, read=machine) == (None, Budget())


def test_a_card_that_is_not_here() -> None:
    """What the framework takes of it by itself is the limit, and a limit goes before that."""
    limit, budget = limit_and_budget(None, None, card_bytes=4 * GIB, read=machine)
    assert limit == (4096 - 450 - 1536) * MIB
    assert budget.arithmetic == ("4096 MiB free - 450 MiB context - 1536 MiB reserve",)
    assert budget.gpu is None
    small, _ = limit_and_budget(None, None, card_bytes=GIB, read=machine)
    assert small == (1024 - 450 - 225) * MIB
    old = lambda: machine(GPU._replace(compute_capability=(6, 1)))  # noqa: E731
    of_old, _ = limit_and_budget(None, None, card_bytes=4 * GIB, read=old)
    assert of_old == (4096 - 450 - 500) * MIB, "the reserve is that of the machine's GPU"
    of_jax, _ = limit_and_budget(None, None, card_bytes=4 * GIB, read=machine, backend="jax")
    assert of_jax == 3 * GIB
    assert limit_and_budget(GIB, None, card_bytes=4 * GIB, read=machine)[0] == GIB
    with pytest.raises(UsageError, match="a 450 MiB GPU has no memory left"):
        limit_and_budget(None, None, card_bytes=450 * MIB, read=machine)
    with pytest.raises(UsageError, match="450 MiB context - 225 MiB reserve"):
        limit_and_budget(None, None, card_bytes=(450 + 225) * MIB, read=machine)
    least, _ = limit_and_budget(None, None, card_bytes=(450 + 226) * MIB, read=machine)
    assert least == MIB


def test_a_profile_gives_the_limit_of_its_plan(tmp_path: Path) -> None:
    """With the plan's own arithmetic: what `gpuconf plan` prints."""
    text = "memory: {per_process_gpu_memory_fraction: 0.5, keep_free: 1GiB}"
    limit, budget = limit_and_budget(None, profile(tmp_path, text), read=lambda: machine(GPU))
    assert limit == 4 * GIB
    assert budget.source == "profile mine, GPU 0"
    assert budget.arithmetic[-2] == "limit = min(4096 MiB, 4480 MiB) = 4096 MiB"
    assert budget.arithmetic[-1] == "lease = 4096 MiB limit + 640 MiB context = 4736 MiB"
    assert budget.gpu == GPU


@pytest.mark.slow
def test_what_others_have_leased_is_not_allowed(nvml: Nvml, tmp_path: Path) -> None:
    """As in `gpuconf plan`: the limit is what a program would get now."""
    card = standin.Card(standin.uuid(0), total=8 * GIB, reserved=0, used=GIB)
    mine = profile(tmp_path, "memory: {keep_free: 1GiB, context: 1MiB}")
    ledger = ledger_in(tmp_path / "leases")
    program = f"""
        from gpuconf.commands.estimate.memory_limit import limit_and_budget
        limit, budget = limit_and_budget(None, {mine!r})
        print(limit)
        print(*budget.arithmetic, sep="\\n")
        """
    environ = {**nvml(standin.Machine((card,))), "GPUCONF_LEASES": str(ledger)}
    with held(ledger, {standin.uuid(0): 2 * GIB}):
        limit, *arithmetic = run_python(program, tmp_path, environ=environ).splitlines()
    assert int(limit) == 4 * GIB - MIB
    assert "reserved by" in arithmetic[0]


def test_logical_devices(tmp_path: Path) -> None:
    """A step runs on one of them: the first."""
    text = "virtual_devices: [2GiB, 1GiB]"
    limit, budget = limit_and_budget(None, profile(tmp_path, text), read=lambda: machine(GPU))
    assert (limit, budget.source) == (2 * GIB, "profile mine, GPU 0, its first logical device")


def test_a_profile_without_a_limit(tmp_path: Path) -> None:
    """What TensorFlow takes by itself: the free memory less its context and its reserve."""
    mine = profile(tmp_path, "memory: {allow_growth: true}")
    limit, budget = limit_and_budget(None, mine, read=lambda: machine(GPU))
    assert limit == (6144 - 450 - 1536) * MIB
    assert budget.arithmetic[-1] == "6144 MiB free - 450 MiB context - 1536 MiB reserve"
    unknown = GPU._replace(compute_capability=None)
    with pytest.raises(UsageError, match="sets no limit") as caught:
        limit_and_budget(None, mine, read=lambda: machine(unknown))
    assert caught.value.hint == "set the limit: --limit 6GiB"


@pytest.mark.parametrize(
    ("text", "gpus", "said"),
    [("gpus: none", (GPU,), "it hides the GPUs"), ("gpus: all", (), "no GPU on this machine")],
)
def test_no_gpu_no_limit(tmp_path: Path, text: str, gpus: tuple[Gpu, ...], said: str) -> None:
    """Usage, with the option that needs none."""
    with pytest.raises(UsageError, match=said) as caught:
        limit_and_budget(None, profile(tmp_path, text), read=lambda: machine(*gpus))
    assert caught.value.hint == "set the limit: --limit 6GiB"
