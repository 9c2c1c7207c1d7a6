"""Applies a plan to a ConfigProto, for all memory options of a TensorFlow session."""

import sys

_site = sys.modules["_gpuconf_injected_site"]
_messages = _site.load("messages")
_sizes = _site.load("sizes")


def held(config, run, cards):
    """Return a copy of the ConfigProto within the plan's limits, and the changes.

    A smaller value set by the program is kept. The changes are pairs of strings: the requested
    value and the granted one.
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
    """Return the GPU with the smallest limit; None if no GPU has a limit."""
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
    return "" if not card.total_bytes else " (%s)" % (_messages.mib(int(share * card.total_bytes)),)


def _with_total(card):
    """Return the GPU; fill in a missing total from the smallest GPU."""
    if card.limit_bytes is not None and not card.total_bytes:
        card.total_bytes = _site.load("driver").smallest_total_bytes()
    return card


def _virtual_devices(options):
    """Return the virtual devices in the options; empty if TensorFlow has no such field."""
    experimental = getattr(options, "experimental", None)
    return getattr(experimental, "virtual_devices", ())


def _hold_virtual(options, cards):
    """Scale down the virtual devices of each GPU whose sum exceeds its limit."""
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
