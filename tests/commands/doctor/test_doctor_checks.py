"""Every check: machines that it faults and machines that it does not, as values."""

from __future__ import annotations

import pytest

from gpuconf.commands.doctor.checks import CHECKS, run_check
from gpuconf.commands.doctor.checks.check import Check
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from tests.commands.doctor.doctor_cases import CASES, TROUBLES
from tests.commands.doctor.doctor_machines import BARE, SOUND
from tests.commands.doctor.shell_fixes import can_be_pasted

BY_ID = {check.id: check for check in CHECKS}
STATUSES = {"ok", "warn", "fail", "skip"}  # and not crash


def run_checks(facts: Facts) -> list[Finding]:
    """What every check makes of ``facts``."""
    return [run_check(check, facts) for check in CHECKS]


def test_a_case_comes_out_as_the_table_says() -> None:
    """The check's status, and words that a person would look for."""
    wrong = []
    for case in CASES:
        finding = run_check(BY_ID[case.id], case.facts)
        shown = "\n".join([finding.summary, *finding.detail, finding.fix or ""])
        if finding.status != case.status or case.words not in shown:
            wrong.append((case.id, case.words, finding))
    assert wrong == []


def test_every_check_has_a_case_that_fails_it_and_one_that_passes() -> None:
    """A check that cannot fail is a defect, and so is one that cannot pass."""
    ids = set(BY_ID)
    assert {case.id for case in TROUBLES} == ids
    assert {case.id for case in CASES if case.status == "ok"} == ids
    assert len(BY_ID) == len(CHECKS)


def test_every_warning_and_failure_carries_a_fix() -> None:
    """All checks over each machine: a fix where one is due, none where all is well, one line."""
    for case in CASES:
        for finding in run_checks(case.facts):
            assert finding.status in STATUSES, finding
            assert bool(finding.fix) == (finding.status in ("warn", "fail")), finding
            assert finding.summary, finding
            assert "\n" not in "".join([finding.summary, *finding.detail, finding.fix or ""]), (
                finding
            )
            assert finding.fix is None or can_be_pasted(finding.fix), finding
            assert not finding.summary.endswith("."), finding


def test_one_fault_of_the_driver_is_one_failure() -> None:
    """Whatever keeps NVML from answering, one check of the driver or the GPUs says so."""
    silent = [case for case in TROUBLES if case.facts.inventory.problem is not None]
    assert len(silent) >= 20
    for case in silent:
        failed = [each.id for each in run_checks(case.facts) if each.status == "fail"]
        assert failed == [case.id], case.words


@pytest.mark.parametrize("facts", [BARE, Facts(), SOUND], ids=["no GPU", "unknown", "sound"])
def test_a_good_machine_is_not_faulted(facts: Facts) -> None:
    """A default install for the CPU has no warning, nor has the unknown, nor a sound GPU."""
    assert {finding.status for finding in run_checks(facts)} <= {"ok", "skip"}


def test_a_check_that_breaks_down_is_a_finding() -> None:
    """It says where it broke, and how to report it."""

    def breaks(facts: Facts) -> Finding:
        raise ZeroDivisionError(str(facts.has_gpu))

    crashed = run_check(Check("a.b", "it breaks", breaks), SOUND)
    assert (crashed.id, crashed.status) == ("a.b", "crash")
    assert "ZeroDivisionError: True" in crashed.summary
    assert "test_doctor_checks.py" in crashed.detail[-1]
    assert crashed.fix is not None


def test_no_check_reads_the_sentence_of_a_problem() -> None:
    """Another wording of NVML's problem changes where it is shown, and nothing else."""
    silent = [case for case in CASES if case.facts.inventory.problem is not None]
    assert len(silent) >= 20
    for case in silent:
        inventory = case.facts.inventory
        shown = inventory.problem or ""
        reworded = case.facts._replace(inventory=inventory._replace(problem="REWORDED"))
        for before, after in zip(run_checks(case.facts), run_checks(reworded), strict=True):
            detail = tuple(line.replace(shown, "REWORDED") for line in before.detail)
            summary = before.summary.replace(shown, "REWORDED")
            assert after == before._replace(summary=summary, detail=detail)
