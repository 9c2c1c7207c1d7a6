"""The verdict of a run: it fits, it does not fit, or no verdict.  Pure.

Exit codes 0 and 1 are verdicts, and no other result may use them. If a program fails for its own
reasons, its exit code is passed on, unless it is 0 to 3, which have special meanings in gpuconf.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.commands.rehearse.breakdown import names_of
from gpuconf.commands.rehearse.cells import failed_in
from gpuconf.commands.rehearse.phases import (
    COMPUTING,
    TRAIN,
    RanPhase,
    failed_phase,
    phases_of,
    what_ran,
)
from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.commands.rehearse.trace import Tape
from gpuconf.support.children.signals import signal_name
from gpuconf.support.failures import full_disk
from gpuconf.support.failures.failure import Failure, failure_of
from gpuconf.support.failures.unsupported import hint_of_refusal

FITS, DOES_NOT_FIT, NO_VERDICT = 0, 1, 4
_OURS = range(4)  # 0 to 3

_ALONE = "and rehearse follows only TensorFlow's steps"
_FOR_OTHERS = (
    "Keras on PyTorch or JAX: gpuconf.fit splits a batch that does not fit into parts, and "
    "gpuconf.callbacks.MemoryUsage logs what each epoch uses"
)

Answer = Literal["fits", "does not fit", "no verdict"]


_CUT = "loops were cut short before, which may be why: it may have needed their results"


class Verdict(NamedTuple):
    """``because`` is a sentence without a final period; ``hint`` says what to do, if known.

    ``phase`` is the phase that ran out of memory.
    """

    answer: Answer
    because: str
    exit_code: int
    failure: Failure | None = None
    hint: str | None = None
    phase: RanPhase | None = None


def verdict_of(run: RunResult) -> Verdict:
    """The verdict on one run."""
    trainer, phases = run.trainer, phases_of(run)
    steps = int(trainer.get("steps", 0))
    if run.code is None or trainer.get("ended") == "steps":
        return _fits(run, f"{_ran(phases, steps)} ran{_end(trainer)}")
    error = _fatal_error(trainer, is_failed=run.code != 0)
    if run.code == 0 and error is None:
        if not steps and what_ran(_on_gpu(phases)) is None:
            return _no_step(run)
        return _fits(run, f"{_ran(phases, steps)} ran, and the script to its end")
    # On a full disk, the report of the error may be lost, too.
    said = run.stderr if error is None else str(error.get("message", ""))
    folder = full_disk.full_folder(said)
    if folder is not None:
        return _unwritten(folder)
    failure = failure_of(error, run.stderr)
    if failure.kind == "gpu_memory":
        return _does_not_fit(failure, steps, failed_phase(phases), failed_in(trainer))
    return _refused(failure, error) if failure.kind == "refused" else _failed(run, failure, phases)


def _failed(run: RunResult, failure: Failure, phases: Sequence[RanPhase]) -> Verdict:
    """The program failed, but not for lack of GPU memory."""
    is_script = failure.kind == "script" and (run.code or 0) > 0
    if is_script and any(phase.is_cut for phase in phases):
        steps = int(run.trainer.get("steps", 0))
        return _as_far_as_it_ran(run, failure, f"{_ran(phases, steps)} ran")
    found = _not_about_the_card(run, failure)
    others = _others(run.trainer)
    return found if others is None else found._replace(because=others, hint=_FOR_OTHERS)


def _ran(phases: Sequence[RanPhase], steps: int) -> str:
    return what_ran(_on_gpu(phases)) or _count(steps)


def _on_gpu(phases: Sequence[RanPhase]) -> list[RanPhase]:
    """The phases that computed on a GPU, or that computed at all without a memory trace."""
    return [each for each in phases if each.kind in COMPUTING and each.peak_bytes != 0]


def _end(trainer: Mapping[str, Any]) -> str:
    place = trainer.get("ended_at")
    return "" if place is None else f"; the script was ended at {place}"


def _as_far_as_it_ran(run: RunResult, failure: Failure, ran: str) -> Verdict:
    """The script itself failed after its loops had been shortened."""
    where = (run.trainer.get("uncaught") or {}).get("where")
    cell = failed_in(run.trainer)
    at = f" in {cell}" if cell else "" if where is None else f" at {where}"
    found = _fits(run, f"{ran}; then the script itself failed{at}: {failure.message}")
    return found._replace(hint=_CUT) if found.answer == "fits" else found


def _not_about_the_card(run: RunResult, failure: Failure) -> Verdict:
    if failure.kind == "bridge":
        because = f"the kernel bridge could not be loaded: {failure.message}"
        hint = "name the script's own Python: gpuconf rehearse … -- /path/to/python train.py"
        return Verdict("no verdict", because, NO_VERDICT, failure, hint)
    if failure.kind == "kernel":
        because = f"this program cannot be rehearsed: {failure.message}"
        hint = "the simulated GPU cannot compute this operation; a real one may"
        return Verdict("no verdict", because, NO_VERDICT, failure, hint)
    return _no_step(run) if run.code == 0 else _died(run, failure)


def _fits(run: RunResult, because: str) -> Verdict:
    if run.tape is None:
        return _without_a_tape(run, because)
    if not _is_on_a_gpu(run.tape, run.trainer):
        return Verdict(
            "no verdict",
            f"{because}, and none of it on a GPU: TensorFlow used only the CPU",
            NO_VERDICT,
            hint="find what hides the GPU in the script: CUDA_VISIBLE_DEVICES, "
            "set_visible_devices, tf.device",
        )
    return Verdict("fits", because, FITS)


def _without_a_tape(run: RunResult, because: str) -> Verdict:
    """The memory use of the steps is unknown."""
    if run.unwritten is not None:
        return _unwritten(run.unwritten)
    return Verdict(
        "no verdict",
        f"{because}, but the trace of their memory was lost: the script ended without Python's "
        "normal exit, for example, by os._exit",
        NO_VERDICT,
        hint="set --steps to fewer than the script runs, so that the rehearsal ends it",
    )


def _unwritten(folder: str) -> Verdict:
    because = f"the rehearsal could not write to {folder}"
    return Verdict("no verdict", because, NO_VERDICT, hint=full_disk.HINT)


def _is_on_a_gpu(tape: Tape, trainer: Mapping[str, Any]) -> bool:
    """Whether the training ran on a GPU; even an unused device has some scratch memory."""
    peak = max((usage.peak_bytes for usage in tape.usages), default=0)
    weights = sum(names_of(trainer).weights)
    return peak > 0 and peak >= min(weights, MIB)


def _does_not_fit(
    failure: Failure, steps: int, phase: RanPhase | None, cell: str | None
) -> Verdict:
    if cell is not None:
        is_step = phase is not None and phase.kind == TRAIN
        step = f", in step {phase.steps + 1} of {phase.what}" if phase and is_step else ""
        when = f"in {cell}{step}"
    elif phase is None:
        when = f"in step {steps + 1}" if steps else "before the first step was completed"
    elif phase.kind == TRAIN:
        when = f"in step {phase.steps + 1} of {phase.place}"
    else:
        when = f"in {phase.place}" + (f", after {_count(steps)}" if steps else "")
    because = f"out of GPU memory {when}"
    return Verdict("does not fit", because, DOES_NOT_FIT, failure, phase=phase)


def _refused(failure: Failure, error: Mapping[str, Any] | None) -> Verdict:
    if error is not None and error.get("type") == "profile":
        return Verdict("does not fit", "the profile refuses", DOES_NOT_FIT, failure)
    if error is not None and error.get("type") == "backend":
        because = f"{failure.message}, {_ALONE}"
        return Verdict("no verdict", because, NO_VERDICT, failure, _FOR_OTHERS)
    because = f"the profile cannot be applied: {failure.message}"
    return Verdict(
        "no verdict", because, NO_VERDICT, failure, "pip install gpuconf, into the script's Python"
    )


def _others(trainer: Mapping[str, Any]) -> str | None:
    """Why nothing is known about a PyTorch or JAX program; None for a TensorFlow program."""
    if "tensorflow" in trainer or not trainer.get("others"):
        return None
    names = " and ".join(sorted(set(trainer["others"])))
    return f"the program uses {names} without TensorFlow, {_ALONE}"


def _died(run: RunResult, failure: Failure) -> Verdict:
    code = run.code or 0
    cell = failed_in(run.trainer)
    at = "" if cell is None else f" in {cell}"
    if code == -signal.SIGKILL:
        because = "the script was killed, probably because this machine's own memory ran out"
        hint = "device memory of a simulated GPU is memory of this machine; try a smaller --card"
        return Verdict("no verdict", because, 128 + signal.SIGKILL, failure, hint)
    if code < 0:
        because = f"the script was ended by {signal_name(-code)}{at}"
        return Verdict("no verdict", because, 128 - code, failure)
    if failure.kind == "host_memory":
        because = f"the host's memory ran out, not the GPU's: {failure.message}"
        return Verdict("no verdict", because, _passed_on(code), failure)
    said = f": {failure.message}" if failure.message else ""
    because = f"the script itself failed{at or f' (exit code {code})'}{said}"
    return Verdict(
        "no verdict", because, _passed_on(code), failure, hint_of_refusal(failure.message)
    )


def _no_step(run: RunResult) -> Verdict:
    """The program ended with exit code 0 without any training."""
    if run.unwritten is not None:
        return _unwritten(run.unwritten)
    if not run.reports:
        because = "no Python process reported, so the command could not be observed"
        hint = "python -S, -E and -I keep the agent out, and so does a program that is not Python"
    elif (others := _others(run.trainer)) is not None:
        because, hint = others, _FOR_OTHERS
    elif "tensorflow" not in run.trainer:
        because, hint = "the command ended without importing TensorFlow", None
    else:
        because = "the script ended without computing on the GPU"
        hint = "a step applies an optimizer of Keras or TensorFlow, or in a session's run"
    return Verdict("no verdict", because, NO_VERDICT, hint=hint)


def _fatal_error(trainer: Mapping[str, Any], *, is_failed: bool) -> Mapping[str, Any] | None:
    """The error that ended the program, or that it caught without taking another step."""
    uncaught: Mapping[str, Any] | None = trainer.get("uncaught")
    steps = trainer.get("steps", 0)
    late = [error for error in trainer.get("errors", ()) if error.get("steps", 0) >= steps]
    last = next((error for error in reversed(late) if _kind(error) != "script"), None)
    if uncaught is not None:
        # A wrapper's own error ("training failed") may follow an out-of-memory.
        is_wrapper = _kind(uncaught) == "script" and last is not None
        return last if is_wrapper and _kind(last) == "gpu_memory" else uncaught
    if last is not None and (is_failed or _kind(last) == "gpu_memory"):
        return dict(last)
    return None


def _kind(error: Mapping[str, Any] | None) -> str:
    return failure_of(error, "").kind


def survived_errors(run: RunResult) -> int:
    """How many times the program ran out of GPU memory and continued training."""
    steps = run.trainer.get("steps", 0)
    errors = run.trainer.get("errors", ())
    return sum(error.get("steps", 0) < steps and _kind(error) == "gpu_memory" for error in errors)


def _passed_on(code: int) -> int:
    return NO_VERDICT if code in _OURS else code


def _count(steps: int) -> str:
    return f"{steps} training step{'' if steps == 1 else 's'}"
