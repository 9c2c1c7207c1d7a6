"""What to try after a rehearsal: another batch size, a larger limit, another GPU.  Text."""

from __future__ import annotations

import shlex

from gpuconf.basics.units import MIB, exact_size, sized
from gpuconf.commands.rehearse.breakdown import tightest
from gpuconf.commands.rehearse.measuring import NOT_EVEN_ONE
from gpuconf.commands.rehearse.rehearse import Rehearsal
from gpuconf.commands.rehearse.runs import Orders
from gpuconf.commands.rehearse.suggestion import MARGIN, NEARLY_FULL, Suggestion
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES

_WORTH_SHOWING_BYTES = 64 * MIB


def advice(rehearsal: Rehearsal) -> list[str]:
    """What to try; says whether the suggested batch was measured or estimated."""
    suggestion, lines = rehearsal.suggestion, []
    fits = rehearsal.verdict.answer == "fits"
    measured = ", ".join(
        f"batch {point.batch} → {sized(point.peak_bytes)}" for point in rehearsal.measurements
    )
    if measured:
        lines.append(f"measured   {measured}")
    if suggestion is not None and suggestion.batch is not None:
        lines += _batch_lines(rehearsal, suggestion, suggestion.batch)
    elif suggestion is not None:
        lines.append(f"batch      no suggestion: {suggestion.why_not}")
    elif fits:
        return []
    if rehearsal.verdict.answer == "does not fit":
        lines += _ways_out(rehearsal)
    return lines


def _batch_lines(rehearsal: Rehearsal, suggestion: Suggestion, batch: int) -> list[str]:
    most = "; the data has no more examples than that" if suggestion.is_all_data else ""
    if suggestion.measured_bytes is not None:
        peak = sized(suggestion.measured_bytes)
        if suggestion.failed is not None:
            most = f"; {suggestion.failed} does not fit"
        is_end = suggestion.failed is not None or suggestion.is_all_data or _is_near(rehearsal)
        up_to = "up to about" if is_end else "at least"
        more = most if is_end else "; more was not tried"
        return [f"batch      {up_to} {batch}, which was measured: {peak}{more}"]
    device = tightest(rehearsal.devices)
    at = suggestion.expected_bytes
    expected = f", where the line is at {sized(at)}{most}" if at else most
    room = f" of {sized(device.limit_bytes)}" if device is not None else ""
    return [
        f"batch      up to about {batch}{expected}{room}: an extrapolation from two points with a "
        f"margin of {MARGIN:.0%}, not a measurement",
        f"try it     {_command(rehearsal, batch)}",
    ]


def _is_near(rehearsal: Rehearsal) -> bool:
    """Whether the suggested batch uses most of the limit."""
    device, found = tightest(rehearsal.devices), rehearsal.suggestion
    if device is None or found is None or found.measured_bytes is None:
        return False
    return found.measured_bytes >= NEARLY_FULL * device.limit_bytes


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
    command = _command(rehearsal, rehearsal.orders.batch, profile=best.profile)
    return [f"profile    {best.profile} allows {sized(best.limit_bytes)}, not tried: {command}"]


def _command(rehearsal: Rehearsal, batch: int | None, *, profile: str | None = None) -> str:
    """The command that tries another batch size or profile; the other options stay as given."""
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
    if profile or orders.profile:
        words += ["--profile", str(profile or orders.profile)]
    if batch is not None:
        words += ["--batch", str(batch)]
    return shlex.join([*words, "--", *rehearsal.command])
