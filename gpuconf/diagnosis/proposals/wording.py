"""What several families of proposals paste and say."""

from __future__ import annotations

from gpuconf.diagnosis.diagnosis import Proposal
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
