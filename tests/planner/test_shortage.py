"""A GPU with too little left: fail, use the CPU, or wait (tests/session/test_waiting)."""

from __future__ import annotations

import pickle

import pytest

from gpuconf.basics.units import MIB
from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import GpuProcess
from gpuconf.profile.model import GpuRules, GpuSelection, MemoryRules, OnShortage
from tests.planner.cards import asking, card, plan, uuid

FULL, EMPTY = card(0, free=1012), card(1, free=11000)  # of which 512 are for the context


def test_fail_tells_the_sum_the_holders_and_what_to_do() -> None:
    """The error has the whole arithmetic, who uses the GPU, and the next step."""
    holders = (GpuProcess(4242, 2048 * MIB, "python3"), GpuProcess(900, None, None))
    with pytest.raises(ShortageError) as caught:
        plan(asking(4096), FULL._replace(processes=holders))
    text = str(caught.value)
    assert text.startswith(
        "not enough GPU memory for profile asking on GPU 0 (NVIDIA GeForce RTX 2080 Ti): "
        "1012 MiB free; 4608 MiB needed (512 MiB context + 4096 MiB at_least)\n"
    )
    assert text.count("4608 MiB needed") == 1
    assert "  1012 MiB free - 512 MiB context = 500 MiB" in text
    assert (
        "used or reserved by pid 4242 (python3): 2048 MiB in use, without gpuconf; "
        "pid 900 (name unknown): use unknown" in text
    )
    assert "`gpuconf ps`" in text
    assert "`gpuconf run --wait 10min -- COMMAND`" in text
    assert caught.value.restart.startswith("pid 4242 (python3) runs without gpuconf: restart it")
    assert caught.value.restart in (caught.value.hint or "")
    assert "half-card" not in text  # no smaller share of ours makes a program end that has no lease


def test_the_error_survives_pickling() -> None:
    """A worker process hands its error to the parent by pickle, its own fields included."""
    with pytest.raises(ShortageError) as caught:
        plan(asking(4096), FULL)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.shortage == caught.value.shortage is not None


def test_a_gh200_may_hold_the_page_cache() -> None:
    """Its memory is a NUMA node of the host, and the error says how to free what Linux keeps."""
    with pytest.raises(ShortageError, match=r"vm\.drop_caches"):
        plan(asking(4096), FULL._replace(name="NVIDIA GH200 480GB"))


def test_a_demand_beyond_the_card_says_so() -> None:
    """More than an idle GPU has: stopping somebody would not help, and is not proposed."""
    with pytest.raises(ShortageError, match="lower at_least, or raise the limit") as caught:
        plan(asking(20000), FULL)
    assert "gpuconf ps" not in str(caught.value)
    assert set(caught.value.wanted.values()) == {0}
    assert "`gpuconf profiles show asking`" in str(caught.value)


def test_cpu_hides_the_short_card_and_uses_the_other() -> None:
    """One of two is short: it is hidden, with a note, and the other is planned as usual."""
    made = plan(asking(4096, "cpu"), FULL, EMPTY)
    assert [gpu.gpu for gpu in made.gpus] == [EMPTY]
    assert made.cuda_visible_devices == uuid(1)
    (note,) = made.notes
    assert "is skipped: 1012 MiB free; 4608 MiB needed" in note
    assert "(on_shortage: cpu)" in note


def test_cpu_with_every_card_short_runs_on_the_cpu() -> None:
    """No GPU is left: all are hidden, and a note says that the CPU computes."""
    made = plan(asking(4096, "cpu"), FULL, card(1, free=1))
    assert made.hides_gpus
    assert made.cuda_visible_devices == "-1"
    assert made.notes[-1] == "no GPU remains, so the program runs on the CPU"
    assert len(made.notes) == 3


def test_all_means_all_that_will_do() -> None:
    """gpus: all passes over a short GPU while another is left; GPUs named are all wanted."""
    made = plan(asking(4096), FULL, EMPTY)
    assert [gpu.gpu for gpu in made.gpus] == [EMPTY]
    assert made.cuda_visible_devices == uuid(1)
    assert "(another GPU has room)" in made.notes[0]
    with pytest.raises(ShortageError):
        plan(asking(4096), FULL, FULL._replace(uuid=uuid(1), index=1))
    named = GpuSelection(kind="list", members=(0, 1))
    with pytest.raises(ShortageError):
        plan(asking(4096)._replace(gpus=named), FULL, EMPTY)


def test_each_gpu_has_its_own_policy() -> None:
    """per_gpu may say what a shortage on that GPU means."""
    lenient = GpuRules(MemoryRules(at_least=None))
    profile = asking(4096)._replace(per_gpu=((0, lenient),))
    assert len(plan(profile, FULL, EMPTY).gpus) == 2
    hidden = GpuRules(asking(4096).memory._replace(on_shortage=OnShortage("cpu")))
    assert len(plan(asking(4096)._replace(per_gpu=((0, hidden),)), FULL, EMPTY).gpus) == 1
