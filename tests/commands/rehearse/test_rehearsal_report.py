"""What a rehearsal tells: sums that add up, a way out that is one, and data for programs."""

from __future__ import annotations

import json
import signal
from typing import Any

import jsonschema
import pytest

from gpuconf.basics.json_values import plain
from gpuconf.basics.units import GIB, MIB, parse_size
from gpuconf.commands.rehearse.breakdown import DeviceReport, Row
from gpuconf.commands.rehearse.document import document_of
from gpuconf.commands.rehearse.rehearse import Rehearsal, rehearse
from gpuconf.commands.rehearse.report import advice_section, sections
from gpuconf.commands.rehearse.runs import Orders, RunResult
from gpuconf.commands.rehearse.target import Allowance, allowances
from gpuconf.commands.rehearse.trace import Tape, Usage
from gpuconf.commands.rehearse.verdict import Verdict
from gpuconf.simcard import CardSpec
from gpuconf.support.failures.failure import Failure, failure_of
from tests.commands.cli.commands import schema

CARD = CardSpec(total_bytes=4 * GIB, used_bytes=parse_size("1.2GiB"), context_bytes=450 * MIB)
OOM = "OOM when allocating tensor with shape[8,1024,1024] and type float on /device:GPU:0 by " \
      "allocator GPU_0_bfc"  # fmt: skip
LOG = (
    "W0000 00:00:1 5613 bfc_allocator.cc:502] Allocator (GPU_0_bfc) ran out of memory trying to "
    "allocate 32.00MiB (rounded to 33554432)requested by op m/c1/Conv2D\n"
    "I0000 00:00:1 5613 bfc_allocator.cc:1111] Stats: \n"
    "Limit:                       924424192\n"
    "InUse:                       {in_use}\n"
    "MaxInUse:                    912261120\n"
)


def rehearsal(**changes: Any) -> Rehearsal:
    """One that ran out of memory at 870 of 881 MiB, requesting 32."""
    log = LOG.format(in_use=870 * MIB)
    failure = failure_of({"type": "ResourceExhaustedError", "message": OOM}, log)
    row = Row("forward", "c1", "Conv2D", "[8,1024,1024]", 2, 64 * MIB)
    done = Rehearsal(
        command=("python", "train.py"),
        spec=CARD,
        orders=Orders(),
        verdict=Verdict("does not fit", "out of GPU memory in step 1", 1, failure),
        first=RunResult(1, (), {"steps": 0}, None, (), log, 1.0),
        devices=(DeviceReport(0, 0, 881 * MIB, 870 * MIB, 1331 * MIB, (row,)),),
        measurements=(),
        suggestion=None,
        survived=0,
        notes=(),
        allowances=allowances(CARD),
    )
    return done._replace(**changes)


def text_of(done: Rehearsal) -> str:
    """All lines of all sections."""
    return "\n".join(
        line for section in (*sections(done), *advice_section(done)) for line in section.lines
    )


def test_the_sum_of_the_limit() -> None:
    """The reserve by name where it is TensorFlow's own; else what it was allowed."""
    left = "4096 MiB - 1229 MiB used - 450 MiB context"
    own = f"{left} - 1536 MiB that TensorFlow leaves free = 881 MiB"
    assert own in text_of(rehearsal())
    older = rehearsal(
        spec=CARD._replace(compute_capability="6.1"),
        devices=(DeviceReport(0, 0, 1917 * MIB, 400 * MIB, None, ()),),
    )
    assert f"{left} - 500 MiB that TensorFlow leaves free = 1917 MiB" in text_of(older)
    limited = DeviceReport(0, 0, 500 * MIB, 400 * MIB, None, ())
    assert "= 2417 MiB, of which TensorFlow was allowed 500 MiB" in text_of(
        rehearsal(devices=(limited,))
    )


@pytest.mark.parametrize("written", [str(870 * MIB), "870.00MiB", "0.849609375GiB"])
def test_what_it_came_to(written: str) -> None:
    """In use and requested, from the allocator's own log, bytes or (2.21) rounded; nothing where
    the log was hidden."""
    failure = failure_of(
        {"type": "ResourceExhaustedError", "message": OOM}, LOG.format(in_use=written)
    )
    verdict = Verdict("does not fit", "out of GPU memory in step 1", 1, failure)
    assert "in use     870 MiB; 902 MiB with that, of 881 MiB" in text_of(
        rehearsal(verdict=verdict)
    )
    silent = failure_of({"type": "ResourceExhaustedError", "message": OOM}, "")
    verdict = Verdict("does not fit", "out of GPU memory in step 1", 1, silent)
    assert "in use" not in text_of(rehearsal(verdict=verdict))


def test_fragmentation_is_called_that() -> None:
    """Enough was free, and it failed anyway."""
    log = LOG.format(in_use=700 * MIB)
    failure = failure_of({"type": "ResourceExhaustedError", "message": OOM}, log)
    assert "fragmentation" not in text_of(rehearsal())
    verdict = Verdict("does not fit", "out of GPU memory in step 1", 1, failure)
    assert "enough was free, but fragmented" in text_of(rehearsal(verdict=verdict))


@pytest.mark.parametrize(
    ("answer", "sign"), [("does not fit", "← memory ran out"), ("no verdict", "← failed")]
)
def test_where_it_failed(answer: Any, sign: str) -> None:
    """Only what ran out of memory is said to have."""
    phase = {"number": 1, "kind": "train", "what": "fit of m", "steps": 0, "error": "ValueError"}
    first = RunResult(1, (), {"steps": 0, "phases": [phase]}, None, (), "", 1.0)
    done = rehearsal(first=first, verdict=Verdict(answer, "it failed", 1))
    (ran,) = [each.table for each in sections(done) if each.heading == "what ran"]
    assert ran is not None
    assert ran.rows[0][-1].strip() == sign


def test_a_profile_that_helps() -> None:
    """The most generous one that holds what was needed, as a command; never a refusing one."""
    best = allowances(CARD)[0]
    assert best == Allowance("small-laptop", 2099 * MIB)  # 4096 - 1228 - 768, in whole MiB
    assert "dedicated" not in {each.profile for each in allowances(CARD)}, "which refuses this GPU"
    command = "gpuconf rehearse --card 4GiB --used 1.2GiB --profile small-laptop -- python train.py"
    assert f"profile    small-laptop allows 2099 MiB, not tried: {command}" in text_of(rehearsal())
    assert "profile  " not in text_of(rehearsal(orders=Orders(profile="small-laptop")))
    huge = Failure("gpu_memory", OOM, asked_bytes=2 * GIB)
    hopeless = Verdict("does not fit", "out of GPU memory in step 1", 1, huge)
    assert "profile  " not in text_of(rehearsal(verdict=hopeless))


def test_a_refusing_profile() -> None:
    """Its own words without the hint that is for a real machine's GPU, and one that does not."""
    failure = Failure(
        "refused", "profile dedicated: GPU 0 has less\n  hint: `gpuconf ps` shows who"
    )
    verdict = Verdict("does not fit", "the profile refuses", 1, failure)
    text = text_of(rehearsal(verdict=verdict, devices=(), orders=Orders(profile="dedicated")))
    assert "gpuconf ps" not in text
    assert "small-laptop allows" in text


def test_the_document() -> None:
    """Shapes are lists of numbers; what profiles allow is in bytes."""
    trainer = {"steps": 3, "tensorflow": "2.21.0", "keras": ["keras", "3.15.1"]}
    trainer["batch"] = {"kind": "arrays", "own": 8, "used": 8, "why_not": None, "examples": 64}
    done = rehearsal(first=RunResult(1, (), trainer, None, (), "", 1.0))
    document: Any = json.loads(json.dumps(plain(document_of(done))))
    assert (document["keras"], document["batch"]) == (trainer["keras"], trainer["batch"])
    jsonschema.validate({"schema_version": 1, **document}, schema("rehearse"))
    assert document["gpus"][0]["at_peak"][0]["shape"] == [8, 1024, 1024]
    assert document["profiles"][0]["limit_bytes"] == 2099 * MIB
    assert document["failure"]["in_use_bytes"] == 870 * MIB


@pytest.mark.parametrize(
    ("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(128 + signal.SIGTERM), 143)]
)
def test_interrupted_after_the_verdict(stop: BaseException, code: int) -> None:
    """The verdict is told, with the signal's exit code, and no batch is suggested."""
    runs: list[Orders] = []
    usage = Usage(0, 881 * MIB, 400 * MIB, 1, (), ())
    report = {"steps": 3, "ended": "steps", "batch": {"used": 8, "kind": "arrays"}}

    def run(_command: object, orders: Orders, **_: object) -> RunResult:
        runs.append(orders)
        if len(runs) > 1:
            raise stop
        return RunResult(None, (report,), report, Tape((usage,), ()), (), "", 1.0)

    done = rehearse(
        ["python"], Orders(), spec=CARD, card=None, environ={}, run=run, other_batches="always"
    )
    assert (done.verdict.answer, done.exit_code) == ("fits", code)
    assert "interrupted before" in text_of(done)
    assert len(runs) == 2
