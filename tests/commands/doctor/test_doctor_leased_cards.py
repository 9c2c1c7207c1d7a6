"""What the doctor shows of a GPU with leases on it, and that its plan counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.doctor.cards import cards_of
from gpuconf.commands.doctor.page import page_text
from gpuconf.commands.doctor.report import CardReport, Report
from gpuconf.commands.doctor.text import lines_of
from gpuconf.machine.cards import CardLease
from tests.commands.cli.commands import Job, run_jobs
from tests.commands.doctor.doctor_machines import card
from tests.machine.cards import standin
from tests.machine.leases.ledgers import held, ledger_in
from tests.programs.processes import Nvml

OF_A_HOLDER = CardLease(4242, 4 * GIB, 3 * GIB, "train.py", "alice", is_ours=False, pids=(4242,))
IDLE = CardLease(7, 2 * GIB, 0, "eval.py", "bob", since=1e9, is_ours=True, pids=())
ELSEWHERE = CardLease(7, GIB, None, "serve.py", "root", is_elsewhere=True)


def report_of(*leases: CardLease, **changes: Any) -> CardReport:
    """The sound machine's GPU with these leases on it."""
    (found,) = cards_of(card(leases=leases, **changes))
    return found


def test_leases_stand_with_the_processes() -> None:
    """That of a listed process next to what it holds; one that has taken nothing by itself."""
    found = report_of(OF_A_HOLDER, IDLE, ELSEWHERE)
    assert [(each.pid, each.used_bytes, each.lease_bytes) for each in found.holders or ()] == [
        (4242, 3 * GIB, 4 * GIB),
        (7, 0, 2 * GIB),
        (7, None, GIB),
    ]
    assert [str(each).partition(" since ")[0] for each in found.holders or ()] == [
        "pid 4242 python3 of alice uses 3072 MiB, leases 4096 MiB",
        "pid 7 eval.py of bob leases 2048 MiB",
        "pid 7 serve.py of root leases 1024 MiB",
    ]


def test_what_is_promised_is_said_and_not_drawn_as_used() -> None:
    """A lease is not in use: the bar's parts are what they were, and sum to the total."""
    found, without = report_of(OF_A_HOLDER, IDLE, ahead=1), report_of(ahead=0)
    assert (found.promised_bytes, without.promised_bytes) == (3 * GIB, None)
    assert found.bar == without.bar
    assert found.remarks == ("reserved, not in use yet: 3072 MiB", "1 program waiting for memory")
    text = "\n".join(line.text for line in lines_of(Report((), cards=(found,))))
    page = page_text(Report((), cards=(found,)))
    for words in ("reserved, not in use yet: 3072 MiB", "eval.py of bob leases 2048 MiB"):
        assert words in text
        assert words in page


def test_without_a_list_of_processes_leases_are_shown() -> None:
    """Unknown stays None where nothing is leased either."""
    assert report_of(processes=None).holders is None
    assert [each.pid for each in report_of(ELSEWHERE, processes=None).holders or ()] == [7]


@pytest.mark.slow
def test_the_plan_counts_leases_that_live(nvml: Nvml, tmp_path: Path) -> None:
    """Under a profile that leases; one with lease: false takes what NVML calls free."""
    machine = standin.Machine((standin.Card(standin.uuid(0), total=8 * GIB, reserved=0, used=GIB),))
    (tmp_path / "none.yaml").write_text("memory: {keep_free: 1GiB, context: 1MiB, lease: false}\n")
    (tmp_path / "some.yaml").write_text("memory: {keep_free: 1GiB, context: 1MiB}\n")
    ledger = ledger_in(tmp_path / "leases")
    jobs = [
        Job(["doctor", "--json", "--root", "/nowhere", "--profile", f"./{name}.yaml", "leases"])
        for name in ("some", "none")
    ]
    environ = {**nvml(machine), "GPUCONF_LEASES": str(ledger)}
    with held(ledger, {standin.uuid(0): 2 * GIB}) as process:
        some, none = (done.document for done in run_jobs(tmp_path, *jobs, environ=environ))
    assert some["gpus"][0]["limit_bytes"] == 4 * GIB - MIB
    assert none["gpus"][0]["limit_bytes"] == 6 * GIB - MIB
    for document in (some, none):
        (gpu,) = document["gpus"]
        assert gpu["promised_bytes"] == 2 * GIB
        assert [(each["pid"], each["lease_bytes"]) for each in gpu["holders"]] == [
            (process.pid, 2 * GIB)
        ]
