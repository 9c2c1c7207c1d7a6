"""A rehearsal in the format of ``gpuconf rehearse --json``: configs/rehearse.schema.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count, FromOne
from gpuconf.basics.json_values import decoded
from gpuconf.commands.rehearse.breakdown import DeviceReport
from gpuconf.commands.rehearse.cells import RanCell, cells_of
from gpuconf.commands.rehearse.phases import RanPhase, growing, phases_of
from gpuconf.commands.rehearse.rehearse import Rehearsal
from gpuconf.commands.rehearse.suggestion import Measurement, Suggestion
from gpuconf.commands.rehearse.target import Allowance
from gpuconf.commands.rehearse.verdict import Answer
from gpuconf.support.failures.failure import Failure


@dataclass(frozen=True, slots=True)
class RehearsedCard:
    """The simulated GPU."""

    total_bytes: Bytes
    """The size of its memory."""
    used_bytes: Bytes
    """The memory that other programs hold."""
    context_bytes: Bytes
    """The size of a process's CUDA context."""
    count: FromOne
    """The number of such GPUs."""


class BatchFacts(NamedTuple):
    """The batch that the script trained with."""

    kind: str = "unknown"
    """The kind of data: arrays, tf.data, sequence, generator, unknown or other."""
    own: Count | None = None
    """The script's own batch size."""
    used: Count | None = None
    """The batch size that was used."""
    why_not: str | None = None
    """Why the batch size cannot be changed."""
    examples: Count | None = None
    """The number of examples."""


class NotRun(NamedTuple):
    """A part of the script that did not run."""

    what: str
    """The part that did not run."""
    where: str | None = None
    """The line of the script."""
    why: str | None = None
    """Why it did not run."""


class RehearsalDocument(NamedTuple):
    """Whether a script fits on a GPU."""

    simulated: Literal[True]
    """The GPU was not a real one."""
    verdict: Answer
    """The answer that the run supports."""
    because: str
    """The reason, as a sentence without a full stop."""
    hint: str | None
    """What to do."""
    exit_code: Count
    """The command's exit code; docs/rehearse.md lists them."""
    interrupted: bool
    """Whether a signal arrived after the verdict, while other batches were measured."""
    command: tuple[str, ...]
    """The rehearsed command."""
    card: RehearsedCard
    """The simulated GPU."""
    profile: str | None
    """The requested profile."""
    tensorflow: str | None
    """TensorFlow's version; None if the script did not import it."""
    keras: tuple[str, str] | None
    """Keras's package, keras or tf_keras, and its version."""
    steps: Count
    """The number of training steps done."""
    script_exit_code: int | None
    """The script's exit code, negative for a signal; None if it was ended after its steps."""
    batch: BatchFacts | None
    """The batch that the script trained with; None if it did not call fit()."""
    phases: tuple[RanPhase, ...]
    """The parts of the program that ran, in the order of their first start."""
    cells: tuple[RanCell, ...]
    """The cells of a notebook that ran, in order."""
    not_run: tuple[NotRun, ...]
    """The parts that are known not to have run."""
    diverted: tuple[str, ...]
    """The files that the script would have written, which were not changed; 50 at most."""
    warnings: tuple[str, ...]
    """Warnings even if it fits: memory that grows with every step."""
    failure: Failure | None
    """Why the script failed; None if it did not."""
    survived_out_of_memory: Count
    """How many times the script ran out of GPU memory and continued training."""
    gpus: tuple[DeviceReport, ...]
    """TensorFlow's GPU devices."""
    measurements: tuple[Measurement, ...]
    """The batches that were measured."""
    suggestion: Suggestion | None
    """The batch to use; None if nothing was measured to suggest one."""
    profiles: tuple[Allowance, ...]
    """The limits of the shipped profiles on this GPU, highest first."""
    notes: tuple[str, ...]
    """What the rehearsal did differently from the script."""
    not_simulated: tuple[str, ...]
    """The parts that use memory on a real GPU but not here."""
    plot: str | None
    """The picture's path; None if none was drawn."""


class InterruptedDocument(NamedTuple):
    """The rehearsal was interrupted before it had a verdict."""

    simulated: Literal[True]
    """The GPU was not a real one."""
    verdict: Literal["no verdict"]
    """There is no verdict."""
    because: str
    """The signal."""
    exit_code: Count
    """The command's exit code."""
    command: tuple[str, ...]
    """The rehearsed command."""


def document_of(rehearsal: Rehearsal, *, plot: str | None = None) -> RehearsalDocument:
    """Convert a rehearsal to the document; sizes are in bytes, unknown values are None."""
    verdict, trainer, spec = rehearsal.verdict, rehearsal.first.trainer, rehearsal.spec
    batch = trainer.get("batch")
    return RehearsalDocument(
        simulated=True,
        verdict=verdict.answer,
        because=verdict.because,
        hint=verdict.hint,
        exit_code=rehearsal.exit_code,
        interrupted=rehearsal.interrupted is not None,
        command=rehearsal.command,
        card=RehearsedCard(spec.total_bytes, spec.used_bytes, spec.context_bytes, spec.count),
        profile=rehearsal.orders.profile,
        tensorflow=trainer.get("tensorflow"),
        keras=trainer.get("keras"),
        steps=trainer.get("steps", 0),
        script_exit_code=rehearsal.first.code,
        batch=None if batch is None else decoded(BatchFacts, batch),
        phases=phases_of(rehearsal.first),
        cells=cells_of(rehearsal.first),
        not_run=tuple(decoded(NotRun, each) for each in trainer.get("not_run", ())),
        diverted=tuple(map(str, trainer.get("diverted", ()))),
        warnings=tuple(growing(phases_of(rehearsal.first))),
        failure=verdict.failure,
        survived_out_of_memory=rehearsal.survived,
        gpus=rehearsal.devices,
        measurements=rehearsal.measurements,
        suggestion=rehearsal.suggestion,
        profiles=rehearsal.allowances,
        notes=rehearsal.notes,
        not_simulated=("cuDNN workspaces", *(["XLA"] if rehearsal.xla is None else [])),
        plot=plot,
    )
