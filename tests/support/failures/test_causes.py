"""What one cause says of another, what a run survives, and what disproves a cause."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.backends.jax.early_init import too_late
from gpuconf.commands.explain import explain
from gpuconf.errors import ShortageError
from gpuconf.planner.planning import make_plan
from gpuconf.support.failures.causes import CAUSES
from tests.planner.cards import asking, card, machine

# A line for each cause that a line tells.
LINES = yaml.safe_load(Path(__file__).with_name("causes.yaml").read_text(encoding="utf-8"))
PIECES = Path(__file__).with_name("pieces.log").read_text(encoding="utf-8")
# Told by the same lines, with figures or with a framework's name: see test_facts and below.
SAME_LINES = {("fragmentation", "oom-device-tensor"), ("jax-oom", "oom-device-tensor")}
EDGES = [
    (cause, other)
    for cause in CAUSES
    for other in sorted(CAUSES[cause].explains)
    if (cause, other) not in SAME_LINES
]


def test_each_line_alone() -> None:
    """The lines of this table mean what it says; every cause but one of figures has a line."""
    assert set(CAUSES) - set(LINES) == {"fragmentation", "not-a-gpu-problem"}
    assert {cause: explain(line).cause for cause, line in LINES.items()} == {
        cause: cause for cause in LINES
    }


def test_a_consequence_is_never_the_root() -> None:
    """Whichever stands first in the log."""
    lines = {**LINES, "fragmentation": PIECES}
    wrong = []
    for cause, consequence in EDGES:
        found = explain(f"{lines[consequence]}\n{lines[cause]}")
        if found.cause != cause or consequence not in found.also:
            wrong.append((cause, consequence, found.cause, found.also))
    assert wrong == []
    assert len(EDGES) > 20


@pytest.mark.parametrize("first", ["host-oom", "growth-mismatch", "illegal-address"])
def test_of_two_that_do_not_explain_each_other_the_first_is_named(first: str) -> None:
    """The order of the log."""
    for second in ("host-oom", "growth-mismatch", "xla-toolchain"):
        if first != second:
            assert explain(f"{LINES[first]}\n{LINES[second]}").cause == first


PROGRESS = {
    "epochs": "Epoch {n}/300 - 12s - loss: 0.4",
    "keras": "{n}/300 [=====>....] - ETA: 3s - loss: 0.4",
    "tqdm": " 12%|#### | {n}/300 [00:26<18:58,  3.44it/s]",
    "steps": "step {n} loss 0.4",
    "Optuna": "[I 2026-11-01 10:00:00,0] Trial {n} finished with value: 0.8 and parameters: {{}}",
    "KerasTuner": "Trial {n} Complete [00h 00m 12s]",
}


@pytest.mark.parametrize("form", PROGRESS)
@pytest.mark.parametrize("last", [120, 300, 3000])
def test_a_long_run_survives_what_it_survives(form: str, last: int) -> None:
    """However many lines of progress there are, of which most are only counted."""
    lines = [PROGRESS[form].format(n=n) for n in range(1, last)]
    lines.insert(last // 2, LINES["oom-device-tensor"])
    assert explain("\n".join(lines)).severity == "warning-only"


SOFT = {
    "driver-mismatch": "Found cuDNN version 8600, but JAX was built against version 8907",
    "compute-capability": "GPU with sm_120 is not compatible with the current PyTorch installation",
    "missing-libs": "Could not load library libcudnn_ops.so.9. Error: no such file",
}


@pytest.mark.parametrize("cause", ["driver-mismatch", "missing-libs"])
def test_a_line_marked_as_a_warning_is_one(cause: str) -> None:
    """The same words with and without the mark of a warning."""
    assert explain(SOFT[cause]).severity == "failure"
    for mark in ("W tensorflow/x.cc:1] ", "UserWarning: ", "WARNING:absl:"):
        found = explain(mark + SOFT[cause])
        assert (found.cause, found.severity) == (cause, "silent-cpu-fallback")


def test_gpuconfs_own_errors() -> None:
    """The next logs that its users have: in a traceback, and as the commands print them."""
    with pytest.raises(ShortageError) as shortage:
        make_plan(asking(4096), machine(card(free=312)), environ={})
    for error, cause in ((shortage.value, "oom-device-startup"), (too_late(), "late-config")):
        name = type(error).__name__
        assert explain(f"gpuconf.errors.{name}: {error}").cause == cause
        assert explain(f"gpuconf: error: {error}").cause == cause


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        ("Segmentation fault (core dumped)", "the run ended with Segmentation fault"),
        ("RuntimeError: cuDSS error: status 7 on the GPU", "nothing known"),
        ("KeyError: 'label'", "no known GPU problem"),
    ],
)
def test_what_is_not_known_is_not_vouched_for(text: str, headline: str) -> None:
    """The end is named, and what speaks of a GPU is not called harmless."""
    found = explain(text)
    assert found.cause == "not-a-gpu-problem"
    assert headline in str(found).splitlines()[0]
