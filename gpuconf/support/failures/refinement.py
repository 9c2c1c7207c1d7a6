"""Causes derived from a log's figures or framework, not from the words of a line.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuconf.support.failures.facts.card import LoggedCard
from gpuconf.support.failures.facts.dump import Dump
from gpuconf.support.failures.matches import RuleMatch
from gpuconf.support.failures.outcome import OutcomeWatcher

# If less than this share of a GPU is free, other processes hold it.
_FREE_SHARE = 0.25
_TENSOR_RULES = ("tensor-refused", "allocator-refused", "allocation-failed", "allocator-dump")
# In lines, including the code of each frame.
_ONE_TRACEBACK = 150
# A message names its operation, and TensorFlow 1 the operation's device, at once or a line below.
_ONE_MESSAGE = 2
_XLA = "xla-out-of-memory"
_TENSORFLOW = re.compile(r"tensorflow|OP_REQUIRES|\[Op:|\{\{node|rendezvous", re.IGNORECASE)


def refined_causes(
    found: Mapping[str, RuleMatch],
    outcome: OutcomeWatcher,
    dump: Dump | None,
    card: LoggedCard | None,
) -> dict[str, str]:
    """Causes that replace the ones from the rules, by rule id."""
    refined: dict[str, str] = {}
    if dump is not None and dump.is_fragmented:
        refined.update(dict.fromkeys(_TENSOR_RULES, "fragmentation"))
    if _are_near(found, "array-converted", "dst-tensor"):
        refined["dst-tensor"] = "whole-array-copied"
    of_weights = _are_near(found, "weights-assigned", "array-copied")
    if of_weights or (dump is not None and _is_a_small_part(dump)):
        refined["array-copied"] = "oom-device-tensor"
    if _are_near(found, "node-of-the-host", "tensor-refused", _ONE_MESSAGE):
        refined.update(dict.fromkeys(("tensor-refused", "exception-of-memory"), "host-oom"))
    if _is_jax(found, outcome):
        refined.update(dict.fromkeys((*_TENSOR_RULES, _XLA, "region-refused"), "jax-oom"))
    elif "torch-refused" in found or "torch-error" in found:
        refined["device-out-of-memory"] = "torch-oom"
    if "torch-adds" in found:
        refined["cuda-error"] = "torch-oom"
    for rule in ("device-out-of-memory", "region-refused"):
        match = found.get(rule)
        if match is None or rule in refined:
            continue
        late = outcome.progress_before(match.first_number) > 0
        if late and not _was_full_at_start(card):
            refined[rule] = "oom-device-tensor"
    return refined


def _are_near(
    found: Mapping[str, RuleMatch], one: str, other: str, lines: int = _ONE_TRACEBACK
) -> bool:
    """Whether two rules match within this many lines (by default, within one traceback)."""
    if one not in found or other not in found:
        return False
    first, second = found[one].excerpts, found[other].excerpts
    distances = [abs(a.line.number - b.line.number) for a in first for b in second]
    return min(distances) <= lines


def _is_a_small_part(dump: Dump) -> bool:
    """Whether the request was small, not an entire array, and the GPU full of other data."""
    asked, in_use, limit = dump.requested_bytes, dump.in_use_bytes, dump.limit_bytes
    if asked is None or in_use is None or limit is None:
        return False
    return asked < limit // 4 and in_use > limit // 2


def _is_jax(found: Mapping[str, RuleMatch], outcome: OutcomeWatcher) -> bool:
    if "jax-refused" in found:
        return True
    if _XLA not in found:
        return False
    kinds = [raised.kind for raised in outcome.raised]
    if any("jax" in kind or "Xla" in kind for kind in kinds):
        return True
    # TensorFlow logs more about it than this one line.
    text = " ".join(excerpt.text for excerpt in found[_XLA].excerpts)
    of_tensorflow = any(rule in found for rule in _TENSOR_RULES) or _TENSORFLOW.search(text)
    return not kinds and not of_tensorflow and "RESOURCE_EXHAUSTED" in text


def _was_full_at_start(card: LoggedCard | None) -> bool:
    if card is None or card.free_bytes is None or card.total_bytes is None:
        return False
    return card.free_bytes < _FREE_SHARE * card.total_bytes
