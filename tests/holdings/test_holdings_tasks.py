"""The task of each process on a card: found in /proc, and named by the scheduler where it answers.

Real processes under a parent with the title of slurmstepd; ``squeue`` is a program that prints
what Slurm 22.05 does.  Ray is asked for real in tests/shares.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconf.hardware.inventory import SLURM
from gpuconf.holdings.document import CardHoldings, Holding, Holdings, SchedulerTask
from gpuconf.holdings.tasks import with_tasks


@pytest.fixture
def pid() -> Iterator[int]:
    """A process that a step of Slurm's job 77 has started."""
    with subprocess.Popen(
        ["slurmstepd: [77.0]", "-c", "sleep 600 & echo $!; read end; kill $!"],
        executable="/bin/sh",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as step:
        assert step.stdout is not None
        yield int(step.stdout.readline())
        step.communicate("\n")


def tasks(pid: int, *, is_elsewhere: bool = False) -> tuple[list[SchedulerTask | None], list[str]]:
    """The tasks of this process and of one that no scheduler has started; what was not asked."""
    here = Holding(pid, is_elsewhere=is_elsewhere)
    card = CardHoldings("0", 0, processes=(here, Holding(1)))
    found = with_tasks(Holdings("now", (card,)), [SLURM])
    return [each.task for each in found.cards[0].processes], list(found.unasked)


def squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a ``squeue`` on the PATH."""
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_squeue_names_the_job(pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An element of an array as people know it; a name may hold what parts the fields."""
    answer = '[ "$2" = --jobs=77 ] && echo "77|70_3|anna|res|net "'
    squeue(tmp_path, monkeypatch, answer)
    expected = SchedulerTask("slurm", "70_3.0", job="res|net", user="anna")
    assert tasks(pid) == ([expected, None], [])


def test_without_an_answer_the_step_is_known(
    pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = SchedulerTask("slurm", "77.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    found, (problem,) = tasks(pid)
    assert found == [step, None]
    assert "No such file or directory: 'squeue'" in problem
    squeue(tmp_path, monkeypatch, "echo 'slurm_load_jobs error' >&2; exit 1")
    assert tasks(pid) == ([step, None], ["Slurm cannot be asked: slurm_load_jobs error"])
    squeue(tmp_path, monkeypatch, "true")  # the job has ended meanwhile
    assert tasks(pid) == ([step, None], [])


def test_a_number_of_another_namespace_is_nobodys(pid: int) -> None:
    assert tasks(pid, is_elsewhere=True) == ([None, None], [])
