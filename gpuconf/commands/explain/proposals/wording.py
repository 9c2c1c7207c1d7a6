"""Questions, wording and pastes that several families of proposals share, with gpuconf's calls."""

from __future__ import annotations

import re

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.batches import CALLS
from gpuconf.support.failures.reading import LogFacts

SEE_OTHERS = Proposal(
    "see what else is using the card, and stop what you don't need",
    "the desktop, a notebook whose kernel still lives, or a second training",
    "command",
    "gpuconf ps",
)
HALF_THE_BATCH = Proposal(
    "half the batch",
    "the batch size is not known; the layers' outputs grow with it",
    "batch",
    "batch_size = batch_size // 2",
)
_OLDEST_TENSORFLOW = (2, 15)
_OLDEST_PYTHON = (3, 10)
FIRST_LINE = "import gpuconf.auto   # the first line of the script, before keras"
UNEDITED = "`gpuconf run -- python train.py` does the same without editing it"
_ON_OLD_STACKS = (
    "`gpuconf run` needs nothing in the script's own environment; in the script gpuconf needs "
    "Python 3.10 and TensorFlow 2.15"
)
# Signs of programs with their own graph or training step.
_NOT_OF_KERAS = {"session", "diffusion", "transformers", "xgboost", "cupy"}
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


def profile(facts: LogFacts, title: str, reason: str, *lines: str, options: str = "") -> Proposal:
    """A profile to save next to the script; for old stacks, a run with equivalent ``options``.

    gpuconf runs on Linux.  A log from Windows gets the profile anyway, for use in WSL.
    """
    if needs_run(facts):
        return by_run(title, reason, options)
    head = (
        "# gpuconf.yaml, beside a script that starts with: import gpuconf.auto",
        "# or, without editing the script: gpuconf run -- python train.py",
    )
    return Proposal(title, reason, "profile", "\n".join([*head, *lines]))


def needs_run(facts: LogFacts) -> bool:
    """Whether the script's Python or TensorFlow is too old for `import gpuconf.auto`."""
    of_tensorflow = facts.framework in (None, "tensorflow")
    return of_tensorflow and is_old_stack(facts) and not facts.on_windows


def is_old_stack(facts: LogFacts) -> bool:
    """Whether the log's Python or TensorFlow is too old for gpuconf in the script."""
    tensorflow, python = tensorflow_version(facts), known_version(facts, "python")
    if python is not None and python < _OLDEST_PYTHON:
        return True
    if tensorflow is None:
        return facts.shows_old_tensorflow
    return tensorflow < _OLDEST_TENSORFLOW


def by_run(title: str, reason: str, options: str = "") -> Proposal:
    """The unchanged script under `gpuconf run`."""
    words = ("gpuconf run", options, "-- python train.py")
    command = " ".join(word for word in words if word)
    return Proposal(title, f"{reason}; {_ON_OLD_STACKS}", "command", command)


def little_is_free(facts: LogFacts) -> bool:
    """Whether the log shows that other processes hold most of the card; False if unknown."""
    card = facts.card
    if card is None:
        return False
    if card.total_bytes is None or card.free_bytes is None:
        return False
    return card.free_bytes < card.total_bytes // 4


def others_hold_much(facts: LogFacts) -> bool:
    """Whether the log shows other processes on the card; False if unknown."""
    card = facts.card
    if card is None:
        return False
    if len(card.holders) > 1:
        return True
    if card.total_bytes is None or card.free_bytes is None:
        return False
    return card.free_bytes < 0.85 * card.total_bytes


def is_version_1(facts: LogFacts) -> bool:
    """Whether the log comes from TensorFlow 1, which has sessions and no tf.config."""
    return facts.versions.get("tensorflow", "").startswith(("0.", "1."))


def is_before_policies(facts: LogFacts) -> bool:
    """Whether this TensorFlow lacks Keras's mixed-precision policies, as far as the log shows."""
    version = tensorflow_version(facts)
    return version < (2, 4) if version is not None else is_old_stack(facts)


def tensorflow_version(facts: LogFacts) -> tuple[int, int] | None:
    """TensorFlow's version in the log; None if there is none."""
    return known_version(facts, "tensorflow")


def known_version(facts: LogFacts, package: str) -> tuple[int, int] | None:
    """The first two numbers of a version in the log; None if there is none."""
    parts = facts.versions.get(package, "").split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[1].isdigit() else None


SESSION_GROWTH = """\
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
keras.backend.set_session(tf.Session(config=config))"""


def gpuconf_serves(facts: LogFacts) -> bool:
    """Whether gpuconf's calls would run in this environment, and are not themselves what failed."""
    if facts.framework in ("torch", "jax") or facts.on_windows or "gpuconf." in _code(facts):
        return False
    return not is_old_stack(facts)


def by_gpuconf(call: str, batch: object = 32) -> str:
    """The gpuconf call to paste; ``batch`` is the batch size of ``fit``."""
    return f"import gpuconf\n{_PASTES[call].format(batch=batch)}"


def by_keras(call: str, batch: int) -> str:
    """The equivalent Keras call, which must be given the batch size."""
    return f"model.{call}({'x' if call == 'predict' else 'x, y'}, batch_size={batch})"


def keras_call(facts: LogFacts) -> str | None:
    """The Keras call in the user's line."""
    return next((name for name in CALLS if f".{name}(" in _code(facts)), None)


def is_keras(facts: LogFacts) -> bool:
    """Whether the user's line is Keras, or is unknown and no other program is apparent."""
    if keras_call(facts) is not None:
        return True
    return not _code(facts) and ("keras" in facts.signs or not set(facts.signs) & _NOT_OF_KERAS)


def runs_graph(facts: LogFacts) -> bool:
    """Whether the user's line runs a graph in a session, as in TensorFlow 1."""
    return bool(_RUNS_SESSION.search(_code(facts)) or _EVALUATES.search(_code(facts)))


def evaluates_graph(facts: LogFacts) -> bool:
    """Whether it runs a graph without training, as far as its words show."""
    code = _code(facts)
    return runs_graph(facts) and (_EVALUATES.search(code) is not None or not _TRAINS.search(code))


def _code(facts: LogFacts) -> str:
    return (facts.user_code.code if facts.user_code is not None else None) or ""
