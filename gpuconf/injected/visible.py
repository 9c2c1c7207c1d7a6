"""Determines which of the run's GPUs a program has left visible in CUDA_VISIBLE_DEVICES."""

import sys

_site = sys.modules["_gpuconf_injected_site"]
_NAME = "CUDA_VISIBLE_DEVICES"


def cards_left(run, environ):
    """Return the cards of ``run`` that ``environ`` leaves visible, in that order.

    If an entry is not a card of the run, ``environ`` is changed to the run's own cards: an old
    script that sets "0" does not intend to take memory leased by others.
    """
    value = environ.get(_NAME)
    if not run.cards or value is None or value == run.visible:
        return run.cards
    asked = _entries(value)
    found = [_named(entry, run.cards) for entry in asked]
    left = [card for card in found if card is not None]
    if len(left) < len(asked):
        left = left or run.cards[: len(asked)]
        given = ",".join(card.visible_name for card in left)
        environ[_NAME] = given
        _site.load("messages").say(
            "the program sets %s=%s, which is not a GPU of this run; it gets %s"
            % (_NAME, value, given)
        )
    return left


def _entries(value):
    """Return the entries before the first invalid one, which hides the rest in CUDA."""
    found = []
    for entry in map(str.strip, value.split(",")):
        if not (entry.isdigit() or entry.startswith(("GPU-", "MIG-"))):
            break
        found.append(entry)
    return found


def _named(entry, cards):
    for card in cards:
        if entry.isdigit():
            if card.index == int(entry):
                return card
        elif card.uuid and card.uuid.startswith(entry):
            return card
    return None
