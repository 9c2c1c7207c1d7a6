"""The table of unseen models: enough of them, and two halves that share none."""

from __future__ import annotations

from benchmarks.estimate.cases import unseen_cases
from benchmarks.models.registry import ESTIMATED, MEASURED, UNSEEN


def test_each_model_is_in_one_half_with_four_cases() -> None:
    """Training and inference at two batches each; none is one that the estimate was tuned on."""
    learnt, held = unseen_cases("learn"), unseen_cases("held")
    assert not {case.model for case in learnt} & {case.model for case in held}
    assert len(UNSEEN) >= 60
    assert len(learnt) + len(held) == len({case.name for case in [*learnt, *held]})
    assert len(learnt) + len(held) == 4 * len(UNSEEN)
    assert not set(UNSEEN) & set(ESTIMATED)
    assert all(case.model in MEASURED for case in [*learnt, *held])
