"""What leaves the machine in a bug report says nothing of whose it is."""

from __future__ import annotations

import pytest

from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.probe_results import MeasuredHolder
from gpuconf.commands.doctor.redaction import Redactor, redactor_for
from gpuconf.commands.doctor.report import CardReport, ProfileInForce, Report

REDACTOR = Redactor(home="/home/alice", hosts=["wolf.example.org"], users=["alice", "bob"])


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("/home/alice/train.py:3", "~/train.py:3"),
        ("in /home/alice", "in ~"),
        ("/home/alicette/x", "/home/<user>/x"),
        ("'/home/bob/x' and /Users/eve/y", "'/home/<user>/x' and /Users/<user>/y"),
        ("on wolf.example.org now", "on <host> now"),
        ("on wolf: x, WOLF", "on <host>: x, <host>"),
        ("werewolf wolfram wolf-2", "werewolf wolfram wolf-2"),
        ("pid 3 python3 of bob", "pid 3 python3 of <user>"),
        ("bobsled", "bobsled"),
        ("/mnt/home/alice/x", "/mnt/home/<user>/x"),
        ("nothing", "nothing"),
    ],
)
def test_names_are_taken_out_where_they_stand_alone(text: str, redacted: str) -> None:
    """Home, other homes, the host by both names, accounts; and no part of another word."""
    assert REDACTOR.text(text) == redacted


@pytest.mark.parametrize(("home", "text"), [("/", "/usr/lib/x"), ("", "/usr/lib/x")])
def test_a_home_that_is_everything_takes_nothing(home: str, text: str) -> None:
    """A daemon's home is / or nothing."""
    assert Redactor(home=home).text(text) == text


def test_a_whole_report_is_redacted() -> None:
    """Every text in it, at any depth, those who hold a GPU by name; ids and UUIDs stay."""
    holder = MeasuredHolder(3, "/home/carol/bin/python", "carol", kind="compute", state="S")
    part = CardReport(0, uuid="MIG-wolf", name="wolf", holders=(holder._replace(user="dave"),))
    report = Report(
        (Finding("wolf.x", "warn", "carol and dave on wolf", ("/root/a",), fix="rm /root/a"),),
        cards=(CardReport(0, uuid="GPU-1", holders=(holder,), instances=(part,)),),
        command="gpuconf doctor --script /root/train.py",
        versions=(("gpuconf", "1"),),
        environment=(("LD_LIBRARY_PATH", "/root/lib:/home/carol/lib:/scratch/erin/lib"),),
        profile=ProfileInForce("lab", "/root/gpuconf.yaml"),
    )
    done = redactor_for(report, home="/root", hosts=["wolf"], account="erin").report(report)
    assert isinstance(done, Report)
    (finding,) = done.findings
    assert finding.id == "wolf.x"
    assert finding.summary == "<user> and <user> on <host>"
    assert (finding.detail, finding.fix) == (("~/a",), "rm ~/a")
    assert done.command == "gpuconf doctor --script ~/train.py"
    assert done.environment == (("LD_LIBRARY_PATH", "~/lib:/home/<user>/lib:/scratch/<user>/lib"),)
    assert done.profile is not None
    assert done.profile.source == "~/gpuconf.yaml"
    (card,) = done.cards
    assert card.uuid == "GPU-1"
    assert card.holders == (MeasuredHolder(3, "/home/<user>/bin/python", "<user>", state="S"),)
    assert (card.instances[0].uuid, card.instances[0].name) == ("MIG-wolf", "<host>")
    for name in ("carol", "dave", "erin", "/root"):
        assert name not in str(done)
