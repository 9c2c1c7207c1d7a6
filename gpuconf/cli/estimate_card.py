"""Which card the probe's child is on: this machine's GPU or a simulated one; and why it failed."""

from __future__ import annotations

import functools
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpuconf.cli.estimate_child import Ended, run_child
from gpuconf.environ import before_gpuconf
from gpuconf.errors import BackendError
from gpuconf.footprint.memory_estimate import GPU, SIMULATED_CARD
from gpuconf.footprint.probe.order import Order
from gpuconf.footprint.probing import Probe
from gpuconf.hardware import Inventory, read_inventory
from gpuconf.messages.failure import Failure, failure_of
from gpuconf.rehearsal.target import available_bytes
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card
from gpuconf.units import GIB, exact_size

TIMEOUT_S = 900.0
_LARGEST_CARD_BYTES = 64 * GIB
# Its memory is the host's: what it may take of that, so that TensorFlow refuses before the system
# kills somebody.
_SHARE_OF_HOST = 0.7
_LEAST_CARD_BYTES = 1 * GIB
# What means a real card, or what a simulated one has not.
_NOT_FOR_A_SIMULATED_CARD = ("CUDA_VISIBLE_DEVICES", "TF_GPU_ALLOCATOR", "TF_XLA_FLAGS")
_NO_GPU = "TensorFlow uses no GPU here (`gpuconf doctor` tells why): the card is a simulated one"


class _Place(NamedTuple):
    """Where a child is: the tier of its numbers, and the card's memory where it is simulated."""

    tier: str
    total_bytes: int | None = None

    def __str__(self) -> str:
        if self.total_bytes is None:
            return "the GPU"
        return f"a simulated card of {exact_size(self.total_bytes)}"


def measure(
    order: Order,
    *,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    profile: str | None = None,
    timeout_s: float = TIMEOUT_S,
    python: str = sys.executable,
    inventory: Inventory | None = None,
    card_bytes: int | None = None,
) -> Probe:
    """Have a child make two steps at each batch of the order, and return what it measured.

    On this machine's GPU under ``profile`` (None: the one that applies anyway) where TensorFlow
    uses one, else on a simulated card of ``card_bytes`` (None: what this machine's memory allows).
    ``environ`` is the user's own; ``tell`` hears what is being done.  Nothing is left behind.

    Raises BackendError where the model cannot be made or run there, is out of memory, or takes
    longer than ``timeout_s`` seconds, and what `bridge_for_command` raises.
    """
    inventory = read_inventory(processes=False) if inventory is None else inventory
    run = functools.partial(_run, tell=tell, timeout_s=timeout_s, python=python)
    notes: tuple[str, ...] = ()
    if inventory.gpus:
        place = _Place(GPU)
        ended = run(order, place, environ=_environ_for_gpu(environ, profile))
        if not ended.record.has_no_gpu:
            return _probe_of(ended, order, place, timeout_s)
        notes = (_NO_GPU,)
    spec = CardSpec(total_bytes=card_bytes or _largest_card_bytes())
    place = _Place(SIMULATED_CARD, spec.total_bytes)
    base = _environ_for_simulation(environ)
    bridge = bridge_for_command([python], environ=base, tell=tell)
    order = order._replace(is_simulated=True)
    with simulated_card(spec) as card:
        ended = run(order, place, environ=card.environment(base, bridge=bridge))
    made = _probe_of(ended, order, place, timeout_s)
    return made._replace(notes=(*notes, *made.notes))


def _run(
    order: Order,
    place: _Place,
    *,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    timeout_s: float,
    python: str,
) -> Ended:
    def told(doing: str) -> None:
        tell(f"probe on {place}: {doing}")

    return run_child(order, environ=environ, tell=told, timeout_s=timeout_s, python=python)


def _environ_for_gpu(environ: Mapping[str, str], profile: str | None) -> dict[str, str]:
    """A probe takes what it needs, and no whole card, also where gpuconf is switched off."""
    made = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", **environ}
    return made if profile is None else {**made, "GPUCONF_PROFILE": profile}


def _environ_for_simulation(environ: Mapping[str, str]) -> dict[str, str]:
    """No profile applies, as there is nobody to share with; memory grows, as an estimate has it."""
    kept = before_gpuconf(environ)
    made = {name: kept[name] for name in kept if name not in _NOT_FOR_A_SIMULATED_CARD}
    return {**made, "GPUCONF_DISABLE": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def _largest_card_bytes() -> int:
    """How large a card this machine's memory can stand for, in whole GiB."""
    available = available_bytes()
    if available is None:
        return _LARGEST_CARD_BYTES
    share = int(available * _SHARE_OF_HOST) // GIB * GIB
    return min(max(share, _LEAST_CARD_BYTES), _LARGEST_CARD_BYTES)


def _probe_of(ended: Ended, order: Order, place: _Place, timeout_s: float) -> Probe:
    """What a child measured; BackendError where it did not come to the end of its order."""
    record = ended.record
    if record.error is None and len(record.measured) == len(order.batch_sizes):
        firsts = max(record.first_step_bytes)
        return Probe(place.tier, record.card or "GPU 0", record.measured, firsts, record.notes)
    raise refusal_of(ended, order, tier=place.tier, place=str(place), timeout_s=timeout_s)


def refusal_of(
    ended: Ended, order: Order, *, tier: str, place: str, timeout_s: float
) -> BackendError:
    """Why a child did not measure what was ordered, and what to do.  Pure."""
    record = ended.record
    at = f"the probe on {place} failed at {record.doing!r}"
    without = f"without --probe: gpuconf estimate {shlex.quote(order.target)}"
    if ended.code is None:
        message = f"the probe on {place} took more than {timeout_s:.0f} s, at {record.doing!r}"
        return BackendError(message, hint=f"on a GPU it takes seconds; {without}")
    error = record.error
    told = {"type": error.kind, "message": error.message} if error is not None else None
    failure = failure_of(told, ended.output)
    if failure.kind not in ("script", "refused"):  # also where it is the user's code that met it
        return BackendError(f"{at}: {_words(failure)}", hint=f"{_advice(failure, tier)}; {without}")
    if error is None:
        return BackendError(f"{at}: {_death(ended, failure)}", hint=without)
    if error.is_ours:
        return BackendError(f"{at}: {error.message}", hint=error.hint or without)
    return BackendError(f"{at}: {_words(failure)}", hint=f"{_advice(failure, tier)}; {without}")


def _death(ended: Ended, failure: Failure) -> str:
    """How a child ended that could not tell itself."""
    code = ended.code or 0
    if code == -signal.SIGKILL:
        return "its process was killed, most likely for want of host memory (SIGKILL)"
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"its process ended {how}: {failure.message or 'it said nothing'}"


def _words(failure: Failure) -> str:
    named = {
        "gpu_memory": "out of memory: ",
        "host_memory": "this machine's own memory is used up: ",
        "kernel": "a simulated card cannot compute it: ",
        "bridge": "the kernel bridge cannot be loaded: ",
    }
    return f"{named.get(failure.kind, '')}{failure.message}"


def _advice(failure: Failure, tier: str) -> str:
    if failure.kind == "gpu_memory" and tier == GPU:
        return "`nvidia-smi` shows who holds the card"
    if failure.kind in ("gpu_memory", "host_memory"):
        return "a simulated card stands on this machine's memory, which `free -h` shows"
    if failure.kind in ("kernel", "bridge"):
        return "a real GPU may"
    return "make one step of the model by hand to see all of the error"
