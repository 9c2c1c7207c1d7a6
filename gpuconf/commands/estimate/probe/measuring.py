"""Measures a few steps in a child process, on this machine's GPU or a simulated one."""

from __future__ import annotations

import functools
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpuconf.basics.environment import NO_RESERVE_VARIABLE
from gpuconf.basics.units import GIB, exact_size
from gpuconf.commands.estimate.calibration import CardProbe, TracedAt, calibrated, probed_batches
from gpuconf.commands.estimate.estimating import estimate as make_estimate
from gpuconf.commands.estimate.memory_estimate import GPU, SIMULATED_CARD, MemoryEstimate
from gpuconf.commands.estimate.probe.order import PROGRAM, MeasurementRecord, Order, read_record
from gpuconf.commands.estimate.simulated import environ_for_simulation
from gpuconf.errors import BackendError, GpuconfError, UsageError
from gpuconf.machine.cards import Inventory, read_inventory
from gpuconf.machine.host_memory import available_bytes
from gpuconf.simcard import (
    CardSpec,
    bridge_for_command,
    simulated_card,
    support_for_command,
    xla_for_command,
)
from gpuconf.support.children.run import run_recorded
from gpuconf.support.children.signals import ended_in_order, signal_name
from gpuconf.support.failures.failure import Failure, failure_of

TIMEOUT_S = 900.0
_LARGEST_CARD_BYTES = 64 * GIB
# A share of the host's memory, which serves as the GPU's: TensorFlow must report an error before
# the system kills a process.
_SHARE_OF_HOST = 0.7
_LEAST_CARD_BYTES = 1 * GIB
_NO_GPU = "TensorFlow uses no GPU here (`gpuconf doctor` says why): the GPU is simulated"


class ProbeRun(NamedTuple):
    """A finished child process: its record, its output and its exit code.

    ``code`` is negative for a signal, and None if the child was killed after its timeout.
    """

    record: MeasurementRecord
    output: str
    code: int | None


def probed(
    estimate: MemoryEstimate,
    model: Any,
    order: Order,
    *,
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    profile: str | None = None,
) -> MemoryEstimate:
    """Return the estimate of ``model`` calibrated by a probe, at batch sizes chosen here.

    ``options`` are the `gpuconf.estimate` options that the estimate was made with.  Raises the
    errors of `measure`.
    """

    @functools.cache
    def traced_at(batch_size: int) -> int:
        return make_estimate(model, batch_size, **options).peak_bytes

    order = order._replace(batch_sizes=_batch_sizes(estimate, traced_at))
    probe = measure(order, environ=environ, progress=progress, profile=profile)
    progress("tracing the same steps")
    return calibrated(estimate, probe, traced_at)


def _batch_sizes(estimate: MemoryEstimate, traced_at: TracedAt) -> tuple[int, ...]:
    """Return two batch sizes, or the estimate's own for a model built for a single batch size."""
    try:
        sizes = probed_batches(estimate, traced_at)
        for size in sizes:
            traced_at(size)
    except UsageError:
        return (estimate.batch_size,)
    return sizes


def measure(
    order: Order,
    *,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    profile: str | None = None,
    timeout_s: float = TIMEOUT_S,
    python: str = sys.executable,
    inventory: Inventory | None = None,
    card_bytes: int | None = None,
) -> CardProbe:
    """Run two steps at each batch of the order in a child, and return the measurements.

    The child uses this machine's GPU under ``profile`` (None: the active profile) if TensorFlow
    can use one, else a simulated GPU of ``card_bytes`` (None: what this machine's memory allows).
    ``environ`` is the user's own environment.  ``progress`` receives status lines.  All temporary
    files are removed.

    Raises BackendError if the model cannot be created or run there, runs out of memory, or takes
    longer than ``timeout_s`` seconds, and the errors of `bridge_for_command`.
    """
    inventory = read_inventory(processes=False) if inventory is None else inventory
    run = functools.partial(_run, progress=progress, timeout_s=timeout_s, python=python)
    notes: tuple[str, ...] = ()
    if inventory.gpus:
        done = run(order, "the GPU", environ=_environ_for_gpu(environ, profile))
        if not done.record.has_no_gpu:
            return _probe_of(done, order, GPU, "the GPU", timeout_s)
        notes = (_NO_GPU,)
    spec = CardSpec(total_bytes=card_bytes or _largest_card_bytes())
    where = f"a simulated GPU of {exact_size(spec.total_bytes)}"
    base = environ_for_simulation(environ)
    bridge = bridge_for_command([python], environ=base, progress=progress)
    wheels = support_for_command([python], environ=base, progress=progress)
    order = order._replace(is_simulated=True)
    with ended_in_order(), simulated_card(spec) as card:
        xla = xla_for_command([python], environ=base) if order.jit else None
        on_card = card.environment(base, bridge=bridge, wheels=wheels, xla=xla)
        done = run(order, where, environ=on_card)
    made = _probe_of(done, order, SIMULATED_CARD, where, timeout_s)
    return made._replace(notes=(*notes, *made.notes))


def _run(
    order: Order,
    where: str,
    *,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    timeout_s: float,
    python: str,
) -> ProbeRun:
    announced = ""

    def watch(text: str) -> float:
        nonlocal announced
        doing = read_record(text).doing
        if doing != announced:
            progress(f"probe on {where}: {doing}")
            announced = doing
        return timeout_s

    # JAX's peak cannot be reset, and would start at the reserve.
    environ = {**environ, NO_RESERVE_VARIABLE: "1"}
    ended = run_recorded([python, "-m", PROGRAM, order.as_json()], environ, watch=watch)
    return ProbeRun(read_record(ended.record), ended.output, ended.code)


def _environ_for_gpu(environ: Mapping[str, str], profile: str | None) -> dict[str, str]:
    """Return an environment in which a probe takes only what it needs, even if gpuconf is off."""
    made = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", **environ}
    return made if profile is None else {**made, "GPUCONF_PROFILE": profile}


def _largest_card_bytes() -> int:
    """Return the largest GPU size that this machine's memory can simulate, in whole GiB."""
    available = available_bytes()
    if available is None:
        return _LARGEST_CARD_BYTES
    share = int(available * _SHARE_OF_HOST) // GIB * GIB
    return min(max(share, _LEAST_CARD_BYTES), _LARGEST_CARD_BYTES)


def _probe_of(done: ProbeRun, order: Order, tier: str, where: str, timeout_s: float) -> CardProbe:
    """Return what a child measured; raise BackendError if it did not complete its order."""
    record = done.record
    if record.error is None and len(record.measured) == len(order.batch_sizes):
        firsts = max(record.first_step_bytes)
        return CardProbe(tier, record.card or "GPU 0", record.measured, firsts, record.notes)
    raise refusal_of(done, order, tier=tier, where=where, timeout_s=timeout_s)


def refusal_of(
    done: ProbeRun, order: Order, *, tier: str, where: str, timeout_s: float
) -> BackendError:
    """Return an error with the reason why a child did not complete its order, and a hint.  Pure."""
    record = done.record
    at = f"the probe on {where} failed at {record.doing!r}"
    without = f"without --probe: gpuconf estimate {shlex.quote(order.target)}"
    if done.code is None:
        message = f"the probe on {where} took more than {timeout_s:.0f} s, at {record.doing!r}"
        return BackendError(message, hint=f"on a GPU it takes seconds; {without}")
    error = record.error
    # A plain GpuconfError quotes the user's code, which may have run out of memory, for example.
    if error is not None and error.is_ours and error.kind != GpuconfError.__name__:
        return BackendError(f"{at}: {error.message}", hint=error.hint or without)
    raised = {"type": error.kind, "message": error.message} if error is not None else None
    failure = failure_of(raised, done.output)
    if failure.kind not in ("script", "refused"):
        return BackendError(f"{at}: {_words(failure)}", hint=f"{_advice(failure, tier)}; {without}")
    if error is None:
        return BackendError(f"{at}: {_death(done, failure)}", hint=without)
    if error.is_ours:
        return BackendError(f"{at}: {error.message}", hint=error.hint or without)
    return BackendError(f"{at}: {_words(failure)}", hint=f"{_advice(failure, tier)}; {without}")


def _death(done: ProbeRun, failure: Failure) -> str:
    """Describe how a child ended that left no error in its record."""
    code = done.code or 0
    if code == -signal.SIGKILL:
        return "its process was killed, most likely because host memory ran out (SIGKILL)"
    how = f"by {signal_name(-code)}" if code < 0 else f"with exit code {code}"
    return f"its process ended {how}: {failure.message or 'it printed nothing'}"


def _words(failure: Failure) -> str:
    named = {
        "gpu_memory": "out of memory: ",
        "host_memory": "the host ran out of RAM: ",
        "kernel": "a simulated GPU cannot compute it: ",
        "bridge": "the kernel bridge cannot be loaded: ",
    }
    return f"{named.get(failure.kind, '')}{failure.message}"


def _advice(failure: Failure, tier: str) -> str:
    if failure.kind == "gpu_memory" and tier == GPU:
        return "`nvidia-smi` shows who uses the GPU"
    if failure.kind in ("gpu_memory", "host_memory"):
        return "a simulated GPU uses this machine's RAM, which `free -h` shows"
    if failure.kind in ("kernel", "bridge"):
        return "a real GPU may"
    return "run one step of the model yourself to see the whole error"
