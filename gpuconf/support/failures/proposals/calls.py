"""The call in the user's line, and gpuconf's call that would take its place."""

from __future__ import annotations

import re

from gpuconf.support.failures.proposals.batches import (
    CALLS,
    WHOLE_DATA_SET,
    batch_of,
    fitting_batch,
    is_of_a_batch,
)
from gpuconf.support.failures.proposals.stack import code_of, gpuconf_serves
from gpuconf.support.failures.reading import LogFacts

# Signs of programs with their own graph or training step.
_NOT_OF_KERAS = {"session", "diffusion", "transformers", "xgboost", "cupy"}
_RUNS_SESSION = re.compile(r"sess(?:ion)?\.run\(|feed_dict\s{0,9}=")
_EVALUATES = re.compile(r"\.eval\(\s{0,9}(?:feed_dict|\{)")
_TRAINS = re.compile(r"train|optimi[sz]|minimi[sz]|apply_gradients", re.IGNORECASE)


def keras_call(facts: LogFacts) -> str | None:
    """The Keras call in the user's line."""
    return next((name for name in CALLS if f".{name}(" in code_of(facts)), None)


def is_keras(facts: LogFacts) -> bool:
    """Whether the user's line calls Keras, or is unknown and no other program is apparent."""
    if keras_call(facts) is not None:
        return True
    return not code_of(facts) and ("keras" in facts.signs or not set(facts.signs) & _NOT_OF_KERAS)


def runs_graph(facts: LogFacts) -> bool:
    """Whether the user's line runs a graph in a session, as in TensorFlow 1."""
    return bool(_RUNS_SESSION.search(code_of(facts)) or _EVALUATES.search(code_of(facts)))


def evaluates_graph(facts: LogFacts) -> bool:
    """Whether the user's line runs a graph without training, as far as its words show."""
    code = code_of(facts)
    return runs_graph(facts) and (_EVALUATES.search(code) is not None or not _TRAINS.search(code))


def is_whole_data_set(facts: LogFacts) -> bool:
    """Whether the batch looks like an entire data set."""
    fit = fitting_batch(facts)
    return fit is not None and fit.batch >= WHOLE_DATA_SET and facts.batch_size is None


def likely_call(facts: LogFacts) -> str:
    """The Keras call in the user's line, otherwise the likely one."""
    if only_infers(facts):
        return keras_call(facts) or "predict"
    return keras_call(facts) or ("evaluate" if is_whole_data_set(facts) else "fit")


def only_infers(facts: LogFacts) -> bool:
    """Whether the log shows a program that predicts, and nothing that trains."""
    return "infers" in facts.signs and "trains" not in facts.signs


def is_of_unknown_batch(facts: LogFacts) -> bool:
    """Whether a smaller batch may help, but the log does not say how large the batch was."""
    tensor = facts.request.tensor
    is_one = tensor is not None and tensor.shape[:1] == (1,)
    return batch_of(facts) is None and is_of_a_batch(facts) and not is_one


def our_call(facts: LogFacts) -> str | None:
    """gpuconf's call for a smaller batch; None if the code may be a custom training step."""
    if not gpuconf_serves(facts):
        return None
    if fitting_batch(facts) is None:
        found = "session_evaluate" if evaluates_graph(facts) else keras_call(facts)
        return found if is_of_unknown_batch(facts) else None
    if evaluates_graph(facts):
        return "session_evaluate"
    if is_keras(facts):
        return likely_call(facts)
    return "oom_safe" if is_whole_data_set(facts) and not runs_graph(facts) else None
