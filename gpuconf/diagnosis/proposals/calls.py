"""What the user's line calls, and gpuconf's own call that does it in batches that fit.  Pure."""

from __future__ import annotations

import re

from gpuconf.diagnosis.proposals.batches import CALLS
from gpuconf.diagnosis.proposals.wording import known_version, tensorflow_version
from gpuconf.messages.reading import LogFacts

_OLDEST_TENSORFLOW = (2, 15)
_OLDEST_PYTHON = (3, 10)
_RUNS_SESSION = re.compile(r"sess(?:ion)?\.run\(|feed_dict\s{0,9}=")
_EVALUATES = re.compile(r"\.eval\(\s{0,9}(?:feed_dict|\{)")
_TRAINS = re.compile(r"train|optimi[sz]|minimi[sz]|apply_gradients", re.IGNORECASE)
_PASTES = {
    "fit": "gpuconf.fit(model, x, y, batch_size={batch})",
    "evaluate": "gpuconf.evaluate(model, x, y)",
    "predict": "gpuconf.predict(model, x)",
    "session_evaluate": (
        "gpuconf.session_evaluate(session, tensors, feed)   # for session.run(tensors, feed)"
    ),
    "oom_safe": "results = gpuconf.oom_safe(compute)(x)",
}


def gpuconf_serves(facts: LogFacts) -> bool:
    """Whether gpuconf's calls run where the log comes from, and are not what failed."""
    if facts.framework in ("torch", "jax") or facts.on_windows or "gpuconf." in _code(facts):
        return False
    tensorflow, python = tensorflow_version(facts), known_version(facts, "python")
    is_old = tensorflow is not None and tensorflow < _OLDEST_TENSORFLOW
    return not is_old and (python is None or python >= _OLDEST_PYTHON)


def by_gpuconf(call: str, batch: object = 32) -> str:
    """The call to paste; ``batch`` is what ``fit`` learns from at once."""
    return f"import gpuconf\n{_PASTES[call].format(batch=batch)}"


def by_keras(call: str, batch: int) -> str:
    """The same of Keras, which must be given the batch."""
    return f"model.{call}({'x' if call == 'predict' else 'x, y'}, batch_size={batch})"


def keras_call(facts: LogFacts) -> str | None:
    """Which of Keras's calls the user's line has."""
    return next((name for name in CALLS if f".{name}(" in _code(facts)), None)


def is_keras(facts: LogFacts) -> bool:
    """Whether the user's line is one of Keras, or not known."""
    return not _code(facts) or keras_call(facts) is not None


def runs_graph(facts: LogFacts) -> bool:
    """Whether the user's line runs a graph in a session, as in TensorFlow 1."""
    return bool(_RUNS_SESSION.search(_code(facts)) or _EVALUATES.search(_code(facts)))


def evaluates_graph(facts: LogFacts) -> bool:
    """Whether it does so without training, as far as its words tell."""
    code = _code(facts)
    return runs_graph(facts) and (_EVALUATES.search(code) is not None or not _TRAINS.search(code))


def _code(facts: LogFacts) -> str:
    return (facts.user_code.code if facts.user_code is not None else None) or ""
