"""What several families of proposals ask of a log, say and paste, gpuconf's own calls among it."""

from __future__ import annotations

import re

from gpuconf.diagnosis.diagnosis import Proposal
from gpuconf.diagnosis.proposals.batches import CALLS
from gpuconf.messages.reading import LogFacts

SEE_OTHERS = Proposal(
    "see who else holds the card, and end what is not needed",
    "the desktop, a notebook whose kernel still lives, or a second training",
    "command",
    "gpuconf doctor cards",
)
HALF_THE_BATCH = Proposal(
    "half the batch",
    "what it was is not known; what the layers put out grows with it",
    "batch",
    "batch_size = batch_size // 2",
)
FIRST_LINE = "import gpuconf.auto   # the first line of the script, before keras"
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


def profile(title: str, reason: str, *lines: str) -> Proposal:
    """A profile to save beside the script."""
    head = "# gpuconf.yaml, beside a script that starts with: import gpuconf.auto"
    return Proposal(title, reason, "profile", "\n".join([head, *lines]))


def little_is_free(facts: LogFacts) -> bool:
    """Whether the log shows that others hold most of the card; unknown is no."""
    card = facts.card
    if card is None:
        return False
    if card.total_bytes is None or card.free_bytes is None:
        return False
    return card.free_bytes < card.total_bytes // 4


def is_version_1(facts: LogFacts) -> bool:
    """Whether the log is TensorFlow 1's, where there are sessions and no tf.config."""
    return facts.versions.get("tensorflow", "").startswith(("0.", "1."))


def tensorflow_version(facts: LogFacts) -> tuple[int, int] | None:
    """TensorFlow's version in the log; None where it names none."""
    return known_version(facts, "tensorflow")


def known_version(facts: LogFacts, package: str) -> tuple[int, int] | None:
    """The first two numbers of a version in the log; None where it names none."""
    parts = facts.versions.get(package, "").split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[1].isdigit() else None


SESSION_GROWTH = """\
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
keras.backend.set_session(tf.Session(config=config))"""


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
