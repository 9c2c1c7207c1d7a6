"""What is proposed: it can be pasted, it is what the log allows, and its sums are right."""

from __future__ import annotations

import ast
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuconf import load_profile
from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.explain import Diagnosis, Proposal, explain
from gpuconf.support.failures.causes import CAUSES, NOT_GPU
from gpuconf.support.failures.facts.card import LoggedCard, LoggedProcess
from gpuconf.support.failures.facts.dump import Dump
from gpuconf.support.failures.facts.tensor import MemoryRequest, tensor_of
from gpuconf.support.failures.facts.user_code import Frame
from gpuconf.support.failures.proposals import proposals_for
from gpuconf.support.failures.proposals.batches import batch_of, fitting_batch
from gpuconf.support.failures.reading import LogFacts

LOGS = Path(__file__).parent / "simulated" / "logs"
OOM = (
    "OOM when allocating tensor with shape{} and type float on /job:x/device:GPU:0 by allocator "
    "GPU_0_bfc"
)


def titles(found: Diagnosis) -> str:
    """All that is proposed, in one text."""
    return "\n".join(f"{each.title}: {each.paste}" for each in found.proposals)


@cache
def everything_proposed() -> list[tuple[str, Proposal]]:
    """Every proposal for every log that we made, and for every cause with nothing known."""
    made = [(path.name, explain(path.read_bytes())) for path in sorted(LOGS.iterdir())]
    of_logs = [(name, each) for name, found in made for each in found.proposals]
    facts = LogFacts(versions={"tensorflow": "2.12.0"}, details={"compiled_cudnn": "9.3.0"})
    of_causes = [
        (cause, each)
        for cause in CAUSES
        for known in (LogFacts(), facts)
        for each in proposals_for(cause, "failure", known)
    ]
    return [*of_logs, *of_causes]


def test_every_cause_has_a_change() -> None:
    """All but what is no matter of a GPU."""
    without = [cause for cause in CAUSES if not proposals_for(cause, "failure", LogFacts())]
    assert without == [NOT_GPU]


@pytest.mark.parametrize("kind", ["profile", "code", "batch", "command"])
def test_pastes_can_be_pasted(kind: str, tmp_path: Path) -> None:
    """Profiles load, code compiles, commands parse; each has a reason."""
    of_kind = {each for _, each in everything_proposed() if each.kind == kind}
    assert of_kind
    for each in of_kind:
        assert each.title
        assert each.reason
        if kind == "profile":
            file = tmp_path / "gpuconf.yaml"
            file.write_text(each.paste, "utf-8")
            load_profile(file)
        elif kind == "command":
            bash = shutil.which("bash")
            assert bash is not None
            subprocess.run([bash, "-n", "-c", each.paste], check=True)
        else:
            ast.parse(each.paste)


def facts_of(shape: tuple[int, ...], node: str = "conv/Conv2D", **known: Any) -> LogFacts:
    """Facts about a float32 tensor of ``shape`` that was refused."""
    tensor = tensor_of(shape, "float")
    assert tensor is not None
    return LogFacts(MemoryRequest(tensor, tensor.size_bytes, node=node))._replace(**known)


def test_the_batch_of_the_code_goes_before_the_shape() -> None:
    """Which shapes look like a batch: support/failures/test_facts."""
    assert batch_of(facts_of((512, 512, 3, 3), batch_size=8)) == 8


@pytest.mark.parametrize(
    ("in_use", "limit", "fits"),
    [(0, 8 * MIB, 32), (8 * MIB, 16 * MIB, 32), (1, 5 * MIB, 16), (0, 64, None)],
)
def test_the_batch_that_fits(in_use: int, limit: int, fits: int | None) -> None:
    """batch × limit / (in use + asked), down to a power of two; none where not one would do."""
    shape = (64, 64, 64, 16)  # 16 MiB
    fit = fitting_batch(facts_of(shape, dump=Dump(1, limit_bytes=limit, in_use_bytes=in_use)))
    assert (fit.fits if fit else None) == fits


def test_the_others_on_the_card() -> None:
    """They are pointed at where the log shows them, and not where it shows that there are none."""
    tensor = facts_of((64, 64, 64, 64))
    busy = LoggedCard(total_bytes=8 * GIB, free_bytes=3 * GIB)
    alone = LoggedCard(total_bytes=8 * GIB, free_bytes=8 * GIB)
    held = LoggedCard(holders=(LoggedProcess(1, "Xorg", GIB), LoggedProcess(2, "python", GIB)))
    for card, shown in ((busy, True), (held, True), (alone, False), (None, False)):
        made = proposals_for("oom-device-tensor", "failure", tensor._replace(card=card))
        assert any(each.paste == "gpuconf ps" for each in made) == shown


def test_a_limit_far_below_the_card_is_raised() -> None:
    """And one that is near it is not."""
    low = LoggedCard(total_bytes=24 * GIB, limit_bytes=2 * GIB)
    high = LoggedCard(total_bytes=24 * GIB, limit_bytes=22 * GIB)
    for card, shown in ((low, True), (high, False)):
        made = proposals_for("oom-device-tensor", "failure", facts_of((64, 64, 64, 64), card=card))
        assert any("allow TensorFlow more" in each.title for each in made) == shown


def test_half_precision_only_for_float32() -> None:
    """What is float16 already is not halved again; TensorFlow 1 has no policy."""
    half = tensor_of((64, 64, 64, 64), "half")
    for facts, shown in (
        (facts_of((64, 64, 64, 64)), True),
        (LogFacts(MemoryRequest(half)), False),
        (facts_of((64, 64, 64, 64), versions={"tensorflow": "1.15.0"}), False),
    ):
        made = proposals_for("oom-device-tensor", "failure", facts)
        assert any("half precision" in each.title for each in made) == shown


def test_an_error_of_a_compiled_step_is_not_survived() -> None:
    """Where TensorFlow freed memory twice after it; not where it ran out of memory alone."""
    log = (LOGS / "oom-xla-caught.log").read_text("utf-8")
    aborted, cut_before = explain(log), explain(log.partition("Check failed")[0])
    assert aborted.severity == "failure"
    assert [each.title for each in aborted.proposals][1].startswith("do not catch this error")
    assert "do not catch" not in titles(cut_before)
    check = next(line for line in log.splitlines() if "Check failed: c->" in line)
    for line in (check, check.replace("c->in_use()", "h != kInvalidChunkHandle")):
        alone = explain(line)
        assert (alone.cause, alone.severity) == ("oom-device-tensor", "failure")
        assert "jit_compile=False" in titles(alone)


def test_where_a_late_call_stands() -> None:
    """The user's own line is named in the change."""
    frame = Frame(1, "train.py", 12, None)
    made = proposals_for("late-config", "failure", LogFacts(user_code=frame))
    assert any("train.py:12" in each.title for each in made)
