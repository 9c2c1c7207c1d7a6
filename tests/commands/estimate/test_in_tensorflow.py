"""Checks inside TensorFlow: of traced steps, of what runs them, and of estimates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import warm
from tests.programs.inside_tensorflow import PLAIN, Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

SUBJECTS = ("tracing", "runner", "estimate_api", "estimate_models", "xla")
CHECKS = [Path(__file__).with_name(f"{subject}_checks.py") for subject in SUBJECTS]
# Next to whole processes on a GPU; the gate has such of steps that XLA does not compile.
AT_NIGHT = (
    "check_a_compiled_step_against_the_allocator",
    "check_what_stays_is_what_a_training_leaves",
    "check_more_samples_need_more",
    "check_several_inputs_and_outputs",
    "check_the_worked_example_of_the_page",
    "check_the_largest_batch_is_one_that_fits",
    "check_mixed_precision",
    "check_two_models_that_train_each_other",
    "check_data_is_given_as_fit_takes_it",
    "check_where_building_takes_the_most_it_says_so",
    "check_a_model_of_keras_2_is_as_before",
    "check_limits",
    "check_an_eager_step_is_said_to_be_counted_as_a_graph",
)
outcomes = outcomes_fixture(*CHECKS, environ={**PLAIN, warm.VARIABLE: warm.CHILDREN})


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(name, marks=pytest.mark.nightly if name in AT_NIGHT else [])
        for name in names_in(*CHECKS)
    ],
)
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)
