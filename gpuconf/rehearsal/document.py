"""A rehearsal as ``gpuconf rehearse --json`` prints it: configs/rehearse.schema.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpuconf.json_shape import Bytes, Count, FromOne
from gpuconf.json_values import decoded
from gpuconf.messages.failure import Failure
from gpuconf.rehearsal.breakdown import DeviceReport
from gpuconf.rehearsal.cells import RanCell, cells_of
from gpuconf.rehearsal.phases import RanPhase, growing, phases_of
from gpuconf.rehearsal.rehearse import Rehearsal
from gpuconf.rehearsal.suggestion import Measurement, Suggestion
from gpuconf.rehearsal.target import Allowance
from gpuconf.rehearsal.verdict import Answer


@dataclass(frozen=True, slots=True)
class RehearsedCard:
    """The simulated card."""

    total_bytes: Bytes
    """Its memory."""
    used_bytes: Bytes
    """What others hold of it."""
    context_bytes: Bytes
    """What the CUDA context of a process takes."""
    count: FromOne
    """How many such cards there are."""


class BatchFacts(NamedTuple):
    """The batch that the script trained with."""

    kind: str = "unknown"
    """What it fed: arrays, tf.data, sequence, generator, unknown or another."""
    own: Count | None = None
    """Its own batch."""
    used: Count | None = None
    """The batch that was used."""
    why_not: str | None = None
    """Why another than its own cannot be tried."""
    examples: Count | None = None
    """How many examples there are."""


class NotRun(NamedTuple):
    """A part of the script that was seen not to run."""

    what: str
    """What it is."""
    where: str | None = None
    """The line of the script."""
    why: str | None = None
    """Why it was left out."""


class RehearsalDocument(NamedTuple):
    """Whether a script fits on a card."""

    simulated: Literal[True]
    """The card was not a real one."""
    verdict: Answer
    """What the run proves."""
    because: str
    """Why, in a sentence without a full stop."""
    hint: str | None
    """What to do."""
    exit_code: Count
    """The command's exit code; docs/rehearse.md lists them."""
    interrupted: bool
    """Whether a signal came after the verdict, while other batches were measured."""
    command: tuple[str, ...]
    """What was rehearsed."""
    card: RehearsedCard
    """The simulated card."""
    profile: str | None
    """The profile that was named."""
    tensorflow: str | None
    """TensorFlow's version; None where the script did not import it."""
    keras: tuple[str, str] | None
    """Keras's package, keras or tf_keras, and its version."""
    steps: Count
    """The training steps that were done."""
    script_exit_code: int | None
    """The script's exit code, below 0 a signal's number; None where its steps were done."""
    batch: BatchFacts | None
    """The batch that the script trained with; None where it called no fit()."""
    phases: tuple[RanPhase, ...]
    """What ran, in order of beginning."""
    cells: tuple[RanCell, ...]
    """The cells of a notebook that ran, in their order."""
    not_run: tuple[NotRun, ...]
    """What was seen not to run."""
    diverted: tuple[str, ...]
    """The files that the script would have written, which were not touched; 50 at most."""
    warnings: tuple[str, ...]
    """What to know although it fits: memory that grows with every step."""
    failure: Failure | None
    """What the script failed of; None where it did not."""
    survived_out_of_memory: Count
    """How many times GPU memory ran out and the script went on training."""
    gpus: tuple[DeviceReport, ...]
    """TensorFlow's GPU devices."""
    measurements: tuple[Measurement, ...]
    """The batches that were measured."""
    suggestion: Suggestion | None
    """The batch to use; None where nothing was measured for one."""
    profiles: tuple[Allowance, ...]
    """What the shipped profiles would allow on this card, the most generous first."""
    notes: tuple[str, ...]
    """What the rehearsal could not do as the script asked."""
    not_simulated: tuple[str, ...]
    """What takes memory on a real card and none here."""
    plot: str | None
    """The picture's path; None where none was drawn."""


class InterruptedDocument(NamedTuple):
    """The rehearsal was interrupted before there was a verdict."""

    simulated: Literal[True]
    """The card was not a real one."""
    verdict: Literal["no verdict"]
    """There is none."""
    because: str
    """By which signal."""
    exit_code: Count
    """The command's exit code."""
    command: tuple[str, ...]
    """What was rehearsed."""


def document_of(rehearsal: Rehearsal, *, plot: str | None = None) -> RehearsalDocument:
    """The report; sizes in bytes, unknown is None."""
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
