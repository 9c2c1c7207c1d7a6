"""The table of Xids: its form, and that the doctor and explain say the same of each number."""

from __future__ import annotations

from gpuconf.commands.doctor.checks.health import CHECKS
from gpuconf.commands.doctor.facts import Xid
from gpuconf.commands.explain import explain
from gpuconf.support.failures.xids import known_xids
from tests.commands.doctor.doctor_machines import system
from tests.commands.doctor.shell_fixes import can_be_pasted

(XID_CHECK,) = (check for check in CHECKS if check.id == "cards.xid")
LINE = "NVRM: Xid (PCI:0000:01:00): {}, pid=4242, name=python3, the driver's own text"
# NVIDIA's catalog of Xids has RESTART_APP, IGNORE or a workflow for programs as the action for
# these, and blames "general user application faults" or the end of a program.
OF_PROGRAMS = {13, 31, 43, 45, 69}
# These it ascribes to the GPU, its memory, its links or its firmware.
OF_GPUS = {48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120}


def test_doctor_and_explain_say_the_same() -> None:
    """What happened is the title and the summary; remedy and command are the same, too."""
    for number in known_xids():
        found = XID_CHECK.judge(system(xids=(Xid(number, "0000:01:00", LINE.format(number)),)))
        proposal = explain(LINE.format(number)).proposals[0]
        means = proposal.title.removeprefix(f"Xid {number}: ")
        assert means != proposal.title
        assert means in "\n".join([found.summary, *found.detail])
        if found.status == "warn":
            assert (proposal.reason, proposal.paste) == (found.detail[0], found.fix)


def test_the_doctor_warns_of_failing_gpus_and_not_of_failing_programs() -> None:
    """By NVIDIA's catalog: 63 and 92 are the memory's, though programs may continue."""
    found = {
        number: XID_CHECK.judge(system(xids=(Xid(number, None, LINE.format(number)),))).status
        for number in known_xids()
    }
    assert {number for number, status in found.items() if status == "ok"} == OF_PROGRAMS
    assert {number for number, status in found.items() if status == "warn"} >= OF_GPUS
    assert set(found.values()) == {"ok", "warn"}


def test_an_entry_is_for_people() -> None:
    """It says what happened and, apart from that, what to do, with one command to paste."""
    for meaning in known_xids().values():
        assert can_be_pasted(meaning.command), meaning
        for text in (meaning.means, meaning.remedy):
            assert not text.endswith(".")
            assert text[0].islower() or text.startswith(("GPU", "Ctrl")), text
        assert not {"reset", "restart", "update"} & set(meaning.means.split()), meaning


def test_an_xid_that_is_not_in_the_table_is_not_called_harmless() -> None:
    """The doctor says that it does not know it, and where NVIDIA explains it."""
    found = XID_CHECK.judge(system(xids=(Xid(68, None, LINE.format(68)),)))
    assert (found.status, 68 in known_xids()) == ("skip", False)
    assert "docs.nvidia.com" in found.detail[0]
