"""A ConfigProto held to the plan: TensorFlow's ways to ask for memory in a session's options."""

import sys

_site = sys.modules["_gpuconf_carried_site"]
_words = _site.load("words")
_sizes = _site.load("sizes")


def held(config, run, cards):
    """A copy of the ConfigProto in which no GPU gets more than the plan's, and what that changed.

    What the program asks for stays where it is smaller.  The second value is a list of pairs of
    texts: what it asked for, and what it gets.
    """
    copy = type(config)()
    copy.CopyFrom(config)
    if run.session == "none":
        return copy, []
    if run.hides_gpus:
        copy.device_count["GPU"] = 0
        return copy, []
    options = copy.gpu_options
    if run.growth is not None:
        options.allow_growth = run.growth
    if _virtual_devices(options):
        return copy, _hold_virtual(options, cards)
    return copy, _hold_fraction(options, cards)


def smallest(cards):
    """The card with the smallest limit; None where none has a limit."""
    limited = [card for card in cards if card.limit_bytes is not None]
    return min(limited, key=lambda card: card.limit_bytes) if limited else None


def _hold_fraction(options, cards):
    cards = [_with_total(card) for card in cards]
    if not cards:
        return []
    share, card = min(((_share_of(card), card) for card in cards), key=lambda each: each[0])
    asked = options.per_process_gpu_memory_fraction
    if 0 < asked <= share or (share == 1.0 and not asked):
        return []
    options.per_process_gpu_memory_fraction = share
    if not asked:
        return []
    return [
        (
            "per_process_gpu_memory_fraction %g%s" % (asked, _of(card, asked)),
            "%.3g%s" % (share, _of(card, share)),
        )
    ]


def _share_of(card):
    return _sizes.share_of(card.limit_bytes, card.total_bytes, card.fraction)


def _of(card, share):
    return "" if not card.total_bytes else " (%s)" % (_words.mib(int(share * card.total_bytes)),)


def _with_total(card):
    """The card, with the total of the smallest GPU where the plan does not know it."""
    if card.limit_bytes is not None and not card.total_bytes:
        card.total_bytes = _site.load("driver").smallest_total_bytes()
    return card


def _virtual_devices(options):
    """The options' virtual devices; none in a TensorFlow that has no such field yet."""
    experimental = getattr(options, "experimental", None)
    return getattr(experimental, "virtual_devices", ())


def _hold_virtual(options, cards):
    """Scale down each GPU's virtual devices whose sum is over its limit."""
    changes = []
    groups = _virtual_devices(options)
    least = smallest(cards)
    for place, group in enumerate(groups):
        card = cards[place] if len(cards) == len(groups) else least
        if card is None or card.limit_bytes is None:
            continue
        asked = list(group.memory_limit_mb)
        given = _sizes.scaled_to(asked, card.limit_bytes // _sizes.MIB)
        if asked == given:
            continue
        group.memory_limit_mb[:] = given
        if asked:
            changes.append(("virtual devices of " + _sizes.listed(asked), _sizes.listed(given)))
    return changes
