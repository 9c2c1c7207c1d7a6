"""What to try after a rehearsal: another batch size, a larger limit, another GPU.  Text."""

from __future__ import annotations

import shlex

from gpuconf.basics.units import MIB, exact_size, sized
from gpuconf.commands.rehearse.breakdown import tightest
from gpuconf.commands.rehearse.measuring import NOT_EVEN_ONE
from gpuconf.commands.rehearse.rehearse import Rehearsal
from gpuconf.commands.rehearse.runs import Orders
from gpuconf.commands.rehearse.suggestion import NEARLY_FULL, Suggestion
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES

_WORTH_SHOWING_BYTES = 64 * MIB


def advice(rehearsal: Rehearsal) -> list[str]:
    """What to try."""
    suggestion, lines = rehearsal.suggestion, []
    fits = rehearsal.verdict.answer == "fits"
    measured = ", ".join(
        f"batch {point.batch} → {sized(point.peak_bytes)}" for point in rehearsal.measurements
    )
    if measured:
        lines.append(f"measured   {measured}")
    if suggestion is not None and suggestion.batch is not None:
        lines.append(_batch_line(rehearsal, suggestion))
    elif suggestion is not None:
        lines.append(f"batch      no suggestion: {suggestion.why_not}")
    elif fits:
        return []
    if rehearsal.verdict.answer == "does not fit":
        lines += _ways_out(rehearsal)
    return lines


def _batch_line(rehearsal: Rehearsal, suggestion: Suggestion) -> str:
    device, peak = tightest(rehearsal.devices), suggestion.measured_bytes or 0
    up_to, more = "up to about", ""
    if suggestion.failed is not None:
        more = f"; {suggestion.failed} does not fit"
    elif suggestion.is_all_data:
        more = "; the data has no more examples than that"
    elif device is not None and peak < NEARLY_FULL * device.limit_bytes:
        up_to, more = "at least", "; more was not tried"
    return f"batch      {up_to} {suggestion.batch}, which was measured: {sized(peak)}{more}"


def _ways_out(rehearsal: Rehearsal) -> list[str]:
    """Alternatives to a smaller batch: feeding data in batches, a larger limit, a larger GPU."""
    lines = []
    failure = rehearsal.verdict.failure
    if failure is not None and failure.node == "_EagerConst":
        lines.append(
            "data       fit() copies the whole NumPy array to the GPU, at any batch size: give it "
            "a tf.data.Dataset or a generator"
        )
    lines += _profile_lines(rehearsal)
    suggestion = rehearsal.suggestion
    if suggestion is not None and suggestion.why_not == NOT_EVEN_ONE:
        lines.append("GPU        too small for this model at any batch; try a larger --card")
    return lines


def _profile_lines(rehearsal: Rehearsal) -> list[str]:
    """The profile with the highest limit, if that is higher than the limit of this run."""
    device, failure = tightest(rehearsal.devices), rehearsal.verdict.failure
    peak, limit = (device.peak_bytes, device.limit_bytes) if device is not None else (0, 0)
    asked = (failure.asked_bytes if failure is not None else None) or 0
    needed = max(peak + asked, limit + _WORTH_SHOWING_BYTES)
    best = next(iter(rehearsal.allowances), None)
    if best is None or best.limit_bytes < needed or best.profile == rehearsal.orders.profile:
        return []
    command = _command(rehearsal, best.profile)
    return [f"profile    {best.profile} allows {sized(best.limit_bytes)}, not tried: {command}"]


def _command(rehearsal: Rehearsal, profile: str) -> str:
    """The command that tries another profile; the other options stay as given."""
    spec, orders = rehearsal.spec, rehearsal.orders
    words = ["gpuconf", "rehearse", "--card", exact_size(spec.total_bytes)]
    if spec.used_bytes:
        words += ["--used", exact_size(spec.used_bytes)]
    if spec.count > 1:
        words += ["--count", str(spec.count)]
    if spec.context_bytes != CONTEXT_BYTES:
        words += ["--context", exact_size(spec.context_bytes)]
    if orders.steps != Orders().steps:
        words += ["--steps", str(orders.steps)]
    words += ["--profile", profile]
    if orders.batch is not None:
        words += ["--batch", str(orders.batch)]
    return shlex.join([*words, "--", *rehearsal.command])
