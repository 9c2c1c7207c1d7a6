"""A ConfigProto held to the plan: TensorFlow's ways to ask for memory in a session's options."""

import sys

_site = sys.modules["_gpuconf_carried_site"]
_words = _site.load("words")
_MIB = 1024 * 1024


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


def share_of(card):
    """The fraction of the card that TensorFlow turns back into its limit in whole MiB.

    Half a MiB on top keeps ``int(fraction * total)`` from falling into the MiB below.  1.0 where
    nothing limits the card.
    """
    limit, total = card.limit_bytes, card.total_bytes
    if limit is None or not total:
        return 1.0 if card.fraction is None else card.fraction
    if limit + _MIB // 2 >= total:
        return 1.0
    asked = card.fraction
    if asked is not None and int(asked * total) // _MIB * _MIB == limit:
        return asked
    return float(limit + _MIB // 2) / total


def scaled_to(asked, limit_mib):
    """``asked`` in whole MiB, scaled down alike so that the sum is at most ``limit_mib``."""
    asked = [size if size > 0 else limit_mib for size in asked] or [limit_mib]
    total = sum(asked)
    if total <= limit_mib:
        return [int(size) for size in asked]
    return [int(float(size) * limit_mib / total) for size in asked]


def listed(sizes):
    """``2048 + 1024 MiB``."""
    return " + ".join("%g" % (size,) for size in sizes) + " MiB"


def _hold_fraction(options, cards):
    cards = [_with_total(card) for card in cards]
    if not cards:
        return []
    card = min(cards, key=share_of)  # one fraction for all of them
    share = share_of(card)
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
        given = scaled_to(asked, card.limit_bytes // _MIB)
        if asked == given:
            continue
        group.memory_limit_mb[:] = given
        if asked:
            changes.append(("virtual devices of " + listed(asked), listed(given)))
    return changes
