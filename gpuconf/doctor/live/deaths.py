"""A child that died or hung: what its end means, and what helps.  Pure."""

from __future__ import annotations

import re
import signal

from gpuconf.doctor.live import fixes
from gpuconf.doctor.live.failed_step import Reason
from gpuconf.doctor.live.record import STEPS, ChildRun
from gpuconf.doctor.measured import LiveStep
from gpuconf.messages import read

_MEANINGS = {
    "SIGKILL": (
        "most often the system, out of host memory",
        "sudo dmesg -T | grep -iE 'out of memory|killed process' | tail; free -h",
    ),
    "SIGILL": (
        "this TensorFlow uses instructions that the processor does not have",
        "grep -m1 -o -w avx2 /proc/cpuinfo  # nothing? it needs a TensorFlow built without AVX",
    ),
    "SIGBUS": ("a file system that is full, /dev/shm too, or a bad disk", "df -h /dev/shm /tmp"),
    "SIGTERM": ("somebody, or a job scheduler, ended it", fixes.AGAIN),
    "SIGXCPU": ("a limit of processor time", "ulimit -t"),
}
# What the C library, C++ and TensorFlow say of their end, above what Python says of it.
_LAST_WORDS = re.compile(
    r"^terminate called|^what\(\):|^(?:free|malloc|realloc)\w*\(\):|corrupt|Check failed:"
)
_CRASH = (
    "a crash in TensorFlow, a CUDA library or the driver; two CUDA versions in one process do this",
    "unset LD_LIBRARY_PATH; pip check; {by_hand}",
)


def last_step(run: ChildRun) -> LiveStep:
    """The step in which a run ended: one that did not end, else the one after the last."""
    if run.record.unfinished is not None:
        return run.record.unfinished
    done = run.record.steps[-1] if run.record.steps else LiveStep("start")
    following = STEPS[min(STEPS.index(done.step) + 1, len(STEPS) - 1)] if _known(done) else "start"
    return LiveStep(following if run.record.steps else "start", done.cards)


def reason_of_death(run: ChildRun, step: LiveStep) -> Reason | None:
    """Why ``run`` did not go to its end in order; None if it did."""
    if run.code is None:
        return _hung(run, step)
    name = signal_name(run.code)
    if name is None and (run.code == 0 or run.record.is_over):
        return None
    when = "after its last step" if run.record.is_over else f"in the {step.step} step"
    lines = last_words(run.output)
    if name is None:
        summary = f"the probe ended with exit code {run.code} {when}"
        return Reason(summary, fixes.by_hand(run.record, run.only), lines)
    why, fix = _MEANINGS.get(name, _CRASH)
    fix = fix.format(by_hand=fixes.by_hand(run.record, run.only))
    return Reason(f"the probe was killed by {name} {when}", fix, (why, *lines))


def signal_name(code: int | None) -> str | None:
    """The signal of an exit code below 0: ``SIGSEGV``; None for other codes."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:  # the real-time signals between the two that have names
        return f"signal {-code}"


def last_words(output: str, *, most: int = 4) -> tuple[str, ...]:
    """The last lines of an output that say why it ended, or else its very last ones."""
    reading = read(output)
    ends = (reading.facts.exception, reading.facts.cut_off)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line.text for line in reading.evidence] + [end for end in ends if end is not None]
    said += [line for line in lines if _LAST_WORDS.search(line)]
    places = {line: place for place, line in enumerate(lines)}
    said = sorted(set(said), key=lambda line: places.get(line, len(lines)))
    return tuple(line[:300] for line in (said or lines[-2:])[-most:])


def _hung(run: ChildRun, step: LiveStep) -> Reason:
    lines = last_words(run.output)
    if run.is_stuck:
        lines = ("not even SIGKILL ended it: it hangs inside the driver", *lines)
    return Reason(
        f"the probe still was in the {step.step} step after {run.timeout_s:.0f} s, and was ended",
        fixes.SEE_KERNEL_LOG if run.is_stuck else fixes.with_more_time(run.timeout_s),
        lines,
    )


def _known(step: LiveStep) -> bool:
    return step.step in STEPS
