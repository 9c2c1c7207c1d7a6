"""``gpuconf.estimate``: the GPU memory that a Keras model needs, without a GPU and without data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gpuconf.machine.cards
from gpuconf.basics.arguments import memory_size, whole_number
from gpuconf.basics.units import sized
from gpuconf.commands.estimate.account import layer_rows, timeline
from gpuconf.commands.estimate.advice import advice_for
from gpuconf.commands.estimate.compile_target import CompileTarget, target_of
from gpuconf.commands.estimate.estimate_request import EstimateRequest, check_backend
from gpuconf.commands.estimate.gc_pause import gc_paused
from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice, policy_named
from gpuconf.commands.estimate.largest_batch import Limit, largest_batch
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate, Peak
from gpuconf.commands.estimate.phases import phases_of
from gpuconf.commands.estimate.runner.runner import KernelAbortedError, StepRunner, TooLargeError
from gpuconf.commands.estimate.scripts.step_function import StepFunction
from gpuconf.commands.estimate.step import WORKSPACE, Step, StepMemory
from gpuconf.commands.estimate.traced_steps import Progress, TracedSteps
from gpuconf.errors import UsageError
from gpuconf.support.keras_api.families import family_on_any_backend

_MARGIN = 0.04  # of a limit: earlier allocations change the peak by a few per cent


def estimate(
    model: Any,
    batch_size: int = 32,
    *,
    optimizer: Any = None,
    loss: Any = None,
    training: bool = True,
    jit: bool | None = None,
    mixed_precision: bool | str | None = None,
    input_shape: Any = None,
    data: Any = None,
    arrays: Sequence[Any] = (),
    limit: int | str | None = None,
    card: int | str | None = None,
    allow_growth: bool = True,
    workspace_limit: int | str | None = None,
    phases: bool = False,
    advise: bool | None = False,
    here: bool = False,
    progress: Progress | None = None,
) -> MemoryEstimate:
    """Estimate the GPU memory used by one step of ``fit`` or ``predict``.

    Traces the model's real ``train_step`` (or ``predict_step``) for a batch of this size, and runs
    it in a child process on a simulated GPU that skips every kernel: the sizes come from
    TensorFlow's own allocator, and nothing is computed. If Keras would compile the step with XLA on
    a GPU, XLA compiles it for a GPU like this machine's, or for an assumed one, and the step runs
    as compiled. On JAX, the memory block that XLA lays out is counted, and nothing runs. The model
    is unchanged afterwards, except that a model without weights is built.

    ``optimizer`` and ``loss`` are the same as for ``compile``; the defaults are the model's own.
    ``mixed_precision`` is True, False, ``"float16"`` or ``"bfloat16"``; the default is the model's
    policy. ``input_shape`` is the shape of one sample, without the batch dimension; it is required
    if the model does not specify it. Pass a list or dict for several inputs. ``data`` is a batch as
    passed to ``fit``: ``(inputs, targets)``, as arrays or ``tf.TensorSpec``; only shapes and types
    are used. ``arrays`` are the arrays passed to ``fit``, ``[x, y]``, or their sizes in bytes: with
    TensorFlow, Keras copies them to the GPU, where they stay. On JAX, it does not.

    ``limit`` is the memory that TensorFlow may use, in bytes or as a size such as ``"6GiB"``; the
    largest batch that fits is then computed too. With ``allow_growth`` (set by gpuconf's profiles,
    off by default in TensorFlow), memory is allocated in regions, which adds about 5 % through
    fragmentation. ``workspace_limit``, also a size, is counted as cuDNN's workspace for each
    convolution; on a GPU, ``TF_CUDNN_WORKSPACE_LIMIT_IN_MB`` limits it. The default is none.

    ``phases`` adds a formula for the memory at each batch size. ``advise`` adds the savings from
    possible changes; None adds them only if the batch does not fit. Both need more steps.
    ``progress`` is called with a line of text before each of these steps.

    ``jit`` sets whether XLA compiles the step.  The default is what Keras would choose on a GPU:
    yes for ``jit_compile="auto"``, unless a layer cannot be compiled.  (A model compiled without a
    GPU does not record an explicit False; pass ``jit=False`` in that case.)  ``card`` is the memory
    of the GPU that XLA compiles for; XLA stays below it if possible.

    Raises UsageError for an object that is not a model, cannot be traced, or leaves a shape
    unspecified.
    Raises BackendError for Keras on PyTorch, if the step cannot run on a simulated GPU here, if JAX
    cannot compile for CUDA, and with ``jit=True`` if TensorFlow's XLA cannot compile;
    MissingDependencyError if something needed for this is missing, such as a C compiler.
    """
    family = family_on_any_backend(model)
    check_backend(family.backend)
    policy = policy_named(mixed_precision)
    choice = EstimateChoice(training, optimizer, loss, policy, jit)
    wanted = whole_number("batch_size", batch_size)
    whole = [whole_number("arrays", getattr(each, "nbytes", each), least=0) for each in arrays]
    how = RunOptions(
        limit, card, allow_growth, workspace_limit, jit, here, phases, advise, progress
    )
    with step_runner(how) as runner:
        subject = EstimateRequest(model, family, choice, runner, input_shape, data, whole)
        return estimate_subject(subject, wanted, how)


@dataclass(frozen=True)
class RunOptions:
    """How steps are run, and what is computed from them; as for `estimate`."""

    limit: int | str | None = None
    card: int | str | None = None
    allow_growth: bool = True
    workspace_limit: int | str | None = None
    jit: bool | None = None
    here: bool = False
    phases: bool = False
    advise: bool | None = False
    progress: Progress | None = None

    @property
    def limit_bytes(self) -> int | None:
        """The limit as a number."""
        return _bytes_of("limit", self.limit)


def step_runner(how: RunOptions) -> StepRunner:
    """Return what runs the steps of an estimate."""
    if how.here and how.card is not None:
        raise UsageError(
            "card assumes a GPU, but here measures on this machine's GPU",
            hint="leave one of them out",
        )
    safe = _safe_limit(how.limit_bytes)
    return StepRunner(
        _compile_target(how.card),
        allow_growth=how.allow_growth,
        workspace_bytes=_bytes_of("workspace_limit", how.workspace_limit),
        limit_bytes=safe.usable_bytes if safe else None,
        must_compile=bool(how.jit),
        is_here=how.here,
        progress=how.progress,
    )


def _compile_target(card: int | str | None) -> CompileTarget:
    """Return the GPU that XLA compiles for (this machine's or a common one), of size ``card``."""
    target = target_of(gpuconf.machine.cards.read_inventory(processes=False))
    size = _bytes_of("card", card)
    return target if size is None else target._replace(total_bytes=size, is_here=False)


def _with_runners_note(estimated: MemoryEstimate, runner: StepRunner | None) -> MemoryEstimate:
    """Return the estimate; if XLA could not compile the step, the first note says why."""
    if runner is None or runner.failed is None:
        return estimated
    reason = str(runner.failed).replace("\n  hint: ", "; hint: ")
    note = f"counted without XLA, which Keras uses on a GPU; its memory use differs: {reason}"
    return estimated._replace(notes=(note, *estimated.notes))


@gc_paused()
def estimate_subject(
    subject: EstimateRequest | StepFunction, batch_size: int, how: RunOptions
) -> MemoryEstimate:
    """Estimate anything that can be traced at any batch size."""
    steps = TracedSteps(subject, how.progress)
    estimated = _estimated(steps, batch_size, how)
    if how.advise or (how.advise is None and estimated.fits is False):
        found = advice_for(steps, estimated, _safe_limit(how.limit_bytes))
        estimated = estimated._replace(advice=found)
    return _with_runners_note(estimated, subject.runner)


def _estimated(steps: TracedSteps, batch_size: int, how: RunOptions) -> MemoryEstimate:
    """Return the estimate at one batch size, with the largest batch if there is a limit."""
    step = steps.trace(batch_size)
    limit = _safe_limit(how.limit_bytes)
    other = None
    if how.phases or limit is not None:
        other = _other_step(steps, batch_size)
    estimated = _estimate_of(step, other)
    if limit is None:
        return estimated
    largest = largest_batch(steps.trace, step, other, limit)
    return estimated._replace(
        limit_bytes=limit.size_bytes,
        largest_batch=largest.size,
        notes=(*estimated.notes, *largest.notes),
    )


def _other_step(steps: TracedSteps, batch_size: int) -> Step | None:
    """Return the step at twice the batch size, or half of it if that is too large; None if neither.

    A script's own step may hard-code its batch size, which then cannot be changed.
    """
    if steps.subject.is_of_one_batch_size:
        return None
    try:
        return steps.trace(batch_size * 2)
    except (TooLargeError, KernelAbortedError):
        return steps.trace(batch_size // 2) if batch_size > 1 else None
    except UsageError:
        return None


def _safe_limit(limit_bytes: int | None) -> Limit | None:
    """Return the limit under which a batch must run to count as fitting."""
    if limit_bytes is None:
        return None
    return Limit(limit_bytes, math.ceil(limit_bytes * _MARGIN))


def _estimate_of(step: Step, other: Step | None) -> MemoryEstimate:
    memory = step.memory
    at = step.operations[memory.peak]
    rows = layer_rows(step, memory)
    asked = step.resident_bytes + sum(step.pieces[number].size_bytes for number in memory.live)
    return MemoryEstimate(
        batch_size=step.batch_size,
        peak_bytes=memory.peak_bytes,
        resident_bytes=step.resident_bytes,
        setting=step.setting,
        peak=Peak(at.name, at.layer, at.part),
        layers=rows,
        phases=phases_of(step, other) if other is not None else (),
        timeline=timeline(step, memory),
        workspace_bytes=_workspace_bytes(step, memory),
        rounding_bytes=max(0, memory.step_bytes - asked),
        notes=(*step.notes, *_on_beginning(memory)),
        tier=step.tier,
        building_bytes=_more_at_first(memory) if _is_built_at_peak(memory) else 0,
        first_step_bytes=0 if _is_built_at_peak(memory) else _more_at_first(memory),
    )


def _more_at_first(memory: StepMemory) -> int:
    """Return how much higher the peak is than in later steps."""
    return memory.peak_bytes - memory.step_bytes


def _is_built_at_peak(memory: StepMemory) -> bool:
    return memory.built_bytes > max(memory.first_step_bytes, memory.step_bytes)


def _on_beginning(memory: StepMemory) -> tuple[str, ...]:
    """Return a note if the peak occurs while the model is being built, not during a step."""
    if not _is_built_at_peak(memory):
        return ()
    size = max(memory.first_step_bytes, memory.step_bytes)
    return (
        "the peak occurs while the model is built: initializing its largest weight needs twice "
        f"its size on top; a step needs at most {sized(size)}",
    )


def _bytes_of(name: str, size: int | str | None) -> int | None:
    """Convert an option's size to bytes; None stays None."""
    return None if size is None else memory_size(name, size, hint=f'{name}="6GiB"')


def _workspace_bytes(step: Step, memory: StepMemory) -> int:
    live = (step.pieces[number] for number in memory.live)
    return sum(piece.size_bytes for piece in live if piece.kind == WORKSPACE)
