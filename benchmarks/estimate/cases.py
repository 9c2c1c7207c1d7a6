"""The cases to measure: model, optimizer, batch, policy, training or inference.

All combinations would take days on two cores.  Of each model that the estimate was tuned on there
are two, one training in float32 and one of mixed precision or inference; batches and optimizers
rotate, so that each is used with several models.

The unseen models are in two halves (``registry.half_of``): each in training and in inference at two
batches, with one policy and one optimizer per model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from benchmarks.models.registry import ESTIMATED, UNSEEN, Model, ScenarioRuns, half_of

Policy = Literal["float32", "mixed_float16"]
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {},
    "sgd": {"momentum": 0.9},
    "rmsprop": {},
    "adamw": {},
    "adafactor": {},
}
_COMMON = ("adam", "sgd", "rmsprop")
_MORE = ("adamw", "adafactor")
_WITH_MORE = ("ResNet50 128", "transformer LM", "dense net")


class Case(NamedTuple):
    """One case to measure.  ``optimizer`` is a key of OPTIMIZERS, "adam" in inference too."""

    model: str
    optimizer: str
    batch: int
    policy: Policy = "float32"
    is_training: bool = True

    @property
    def name(self) -> str:
        """The case in words; also its key in a file of measurements."""
        how = f"training, {self.optimizer}" if self.is_training else "inference"
        return f"{self.model} / {how} / {self.policy} / batch {self.batch}"


def tuned_cases() -> list[Case]:
    """The cases of the models that the estimate was tuned on."""
    cases = [_two_cases(number, model) for number, model in enumerate(ESTIMATED.values())]
    return [case for two in cases for case in sorted(two, key=_place)]


def _two_cases(number: int, model: Model) -> tuple[Case, Case]:
    """Batches: all but the largest in training, all but the smallest in the second case."""
    name, batches = model.name, model.batches
    optimizers = [*_COMMON, *(_MORE if name in _WITH_MORE else ())]
    trained = Case(name, optimizers[number % len(optimizers)], batches[number % 3])
    other = Case(name, "adam", batches[1 + number % 3])
    if number % 2:
        return trained, other._replace(is_training=False)
    return trained, other._replace(policy="mixed_float16")


def unseen_cases(half: ScenarioRuns) -> list[Case]:
    """The cases of the models of a half.  Policies and optimizers rotate over all models."""
    return [
        Case(name, (*_COMMON, *_MORE)[number % 5], batch, policy, is_training=is_training)
        for number, (name, each) in enumerate(UNSEEN.items())
        if half_of(name) == half
        for policy in (_policy_of(number, name),)
        for is_training in (True, False)
        for batch in each.batches
    ]


def _policy_of(number: int, name: str) -> Policy:
    """Mixed precision for every sixth model, unless it has its own ``train_step`` or dtypes."""
    is_plain = name not in ("penalized slope", "float64 branch")
    return "mixed_float16" if number % 6 == 5 and is_plain else "float32"


def _place(case: Case) -> tuple[str, bool, int, int]:
    """The sort key of a case among those of its model."""
    return case.policy, not case.is_training, list(OPTIMIZERS).index(case.optimizer), case.batch


def only_models(cases: Iterable[Case], wanted: Iterable[str]) -> list[Case]:
    """The cases of models whose name contains one of the ``wanted`` words; all without words."""
    words = [word.strip().lower() for word in wanted]
    return [
        case for case in cases if not words or any(word in case.model.lower() for word in words)
    ]
