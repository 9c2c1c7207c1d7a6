"""A lab's policy: whose file counts, which rule applies, and what a plan makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.machine.policy import Policy, User, current_user, read_policy, with_policy
from gpuconf.planner.planning import make_plan
from gpuconf.profile.model import GpuSelection, MemoryRules, OnShortage, Profile
from tests.planner.cards import amount, card, machine, uuid

ME = current_user()
TEXT = """
everyone: {memory: 40%, gpus: 1}
groups: {students: {memory: 4GiB}, staff: {memory: 2GiB, gpus: 2}}
users: {anna: {memory: 80%}}
"""
OURS = CardLease(7, 1000 * MIB, most_bytes=3000 * MIB, is_ours=True)
THEIRS = CardLease(8, 1000 * MIB, most_bytes=3000 * MIB, is_ours=False)
WHOLE = Profile("whole", memory=MemoryRules(context=amount(640)))


def policy_file(folder: Path, text: str, mode: int = 0o644) -> str:
    """A policy of the current user, whom these tests take for root."""
    path = folder / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


def policy_in(folder: Path, text: str, mode: int = 0o644, user: User = ME) -> Policy:
    """The policy of that text."""
    policy = read_policy(user, policy_file(folder, text, mode), owner=os.getuid())
    assert policy is not None
    return policy


@pytest.mark.parametrize(
    ("user", "memory_mib", "gpus"),
    [
        (User("anna", ("students",)), 8192, 1),
        (User("ben", ("students", "staff")), 4096, 2),
        (User("carl"), 4096, 1),
    ],
)
def test_the_rule_that_applies(tmp_path: Path, user: User, memory_mib: int, gpus: int) -> None:
    """The user's own, else the largest of the groups, else everyone's, for each key alone."""
    policy = policy_in(tmp_path, TEXT, user=user)
    total = 10240 * MIB
    size = policy.largest(lambda rule: rule.memory and rule.memory.of(total))
    assert size == memory_mib * MIB
    assert policy.largest(lambda rule: rule.gpus) == gpus


def test_only_roots_own_file_counts(tmp_path: Path) -> None:
    """One line says why another is ignored; without a file there is no policy."""
    for mode in (0o664, 0o646):
        ignored = policy_in(tmp_path, TEXT, mode)
        assert ignored.rules == ()
        assert str(ignored.problem).endswith(
            "is ignored: it must be owned by root and writable only by root"
        )
    other = read_policy(ME, policy_file(tmp_path, TEXT), owner=os.getuid() + 1)
    assert other is not None
    assert other.problem == ignored.problem
    assert read_policy(ME, str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("everyone: {memory: 40}", "everyone.memory: expected a number"),
        ("everyone: {memory: 140%}", "everyone.memory: expected a percentage"),
        ("everyone: {gpus: 0}", "an integer from 1"),
        ("everyone: {cards: 1}", 'unknown key "cards"; valid keys here: memory, gpus'),
        ("everyone: 40%", "a mapping"),
        ("anna: {memory: 4GiB}", 'unknown key "anna"; valid keys here: everyone, groups, users'),
        ("users: [anna]", "a mapping"),
        ("everyone: {memory", "yaml:1 is ignored"),
        ("everyone: !!python/object:os.system {}", "is ignored"),
        ("a: &a [*a]", "is ignored"),
        ("#" * 300_000, "larger than 256 KiB"),
    ],
)
def test_a_mistake_is_one_line_and_no_error(tmp_path: Path, text: str, said: str) -> None:
    """It names place and rule; programs are not stopped by it."""
    problem = policy_in(tmp_path, text).problem
    assert said in str(problem)
    assert len(str(problem).splitlines()) == 1


def figures(folder: Path, text: str, *gpus: Gpu) -> Inventory:
    """The machine with the policy ``text`` for the current user."""
    path = policy_file(folder, text)
    return with_policy(machine(*gpus), path=path, owner=os.getuid())


def test_memory_is_a_term_that_counts_the_users_programs(tmp_path: Path) -> None:
    """What leases allow and what programs without one use; not others', not this process's own."""
    stranger = GpuProcess(1 if os.getuid() else 0, 5000 * MIB, "init")
    own, parent = (GpuProcess(pid, 200 * MIB, "python") for pid in (os.getpid(), os.getppid()))
    gpu = card()._replace(leases=(OURS, THEIRS), processes=(own, parent, stranger))
    gpu = gpu.with_own_bytes(os.getpid())
    found = figures(tmp_path, "everyone: {memory: 80%}", gpu)
    assert with_policy(found, path=str(tmp_path / "policy.yaml"), owner=os.getuid()) == found
    plan = make_plan(WHOLE, found, environ={}).gpus[0]
    (line,) = (line for line in plan.arithmetic if "policy.yaml" in line)
    left = 9011 - 3200 - 640
    assert line.endswith(
        f"policy.yaml ({ME.name}): 9011 MiB - 3200 MiB that your other programs may use - "
        f"640 MiB context = {left} MiB"
    )
    assert (plan.limit_bytes or 0) // MIB == left
    text = "everyone: {memory: 3GiB}"
    with pytest.raises(ShortageError, match="may use - 640 MiB context: 768 MiB short"):
        make_plan(WHOLE, figures(tmp_path, text, gpu), environ={})


def test_it_applies_to_a_profile_without_a_limit(tmp_path: Path) -> None:
    """Unlike the kernel's, nothing else would keep the program within it."""
    found = figures(tmp_path, "everyone: {memory: 2GiB}", card())
    (plan,) = make_plan(Profile("free"), found, environ={}).gpus
    assert plan.limit_bytes == (2048 - 512) * MIB
    assert plan.lease_bytes is None


def test_an_ignored_policy_is_a_note(tmp_path: Path) -> None:
    """Of every plan, once."""
    plan = make_plan(WHOLE, figures(tmp_path, "everyone: 1", card()), environ={})
    (note,) = plan.notes
    assert "is ignored" in note


def busy(index: int) -> Gpu:
    """A GPU on which another program of this user has a lease."""
    return card(index, free=3000)._replace(leases=(OURS,))


@pytest.mark.parametrize("kind", ["all", "pick"])
@pytest.mark.parametrize("gpus", [(card(0, free=5000), card(1), card(2)), (card(0), busy(1))])
def test_gpus_that_the_user_already_uses_come_first(
    tmp_path: Path, gpus: tuple[Gpu, ...], kind: str
) -> None:
    """Then those with the most free memory; a note names what is left out."""
    profile = WHOLE._replace(gpus=GpuSelection(kind, count=1))
    plan = make_plan(profile, figures(tmp_path, "everyone: {gpus: 1}", *gpus), environ={})
    assert [each.gpu.index for each in plan.gpus] == [1]
    assert [note for note in plan.notes if "at most 1 GPU" in note and "not using GPU 0" in note]


def test_no_gpu_left_is_a_shortage(tmp_path: Path) -> None:
    """Also for GPUs that the profile names; waiting and the CPU are as the profile says."""
    listed = WHOLE._replace(gpus=GpuSelection("list", members=(0,)))
    found = figures(tmp_path, "everyone: {gpus: 1}", card(0), busy(1))
    with pytest.raises(ShortageError, match="at most 1 GPU, and other programs use 1") as error:
        make_plan(listed, found, environ={})
    assert error.value.wait_s is None
    waiting = MemoryRules(context=amount(640), on_shortage=OnShortage("wait", 60))
    with pytest.raises(ShortageError) as error:
        make_plan(listed._replace(memory=waiting), found, environ={})
    assert error.value.wait_s == 60
    on_cpu = listed._replace(memory=waiting._replace(on_shortage=OnShortage("cpu")))
    assert make_plan(on_cpu, found, environ={}).hides_gpus
    two = figures(tmp_path, "everyone: {gpus: 2}", card(0), busy(1))
    assert [each.gpu.uuid for each in make_plan(listed, two, environ={}).gpus] == [uuid(0)]


def test_a_user_without_allowance_does_not_block_the_queue(tmp_path: Path) -> None:
    """The program waits for the user's own programs, and nobody waits behind it."""
    waits = OnShortage("wait", 60)
    memory = MemoryRules(context=amount(640), at_least=amount(1024), on_shortage=waits)
    profile = WHOLE._replace(memory=memory)
    text = "everyone: {memory: 4GiB}"
    full = card()._replace(leases=(OURS._replace(most_bytes=4096 * MIB),))
    with pytest.raises(ShortageError, match=r"policy.yaml .* leaves too little for") as error:
        make_plan(profile, figures(tmp_path, text, full), environ={})
    assert (error.value.wait_s, error.value.wanted) == (60, {})
    others = card()._replace(leases=(THEIRS._replace(lease_bytes=11000 * MIB),))
    with pytest.raises(ShortageError, match="not enough GPU memory") as error:
        make_plan(profile, figures(tmp_path, text, others), environ={})
    assert set(error.value.wanted) == {uuid(0)}
