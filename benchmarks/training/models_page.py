"""The table of ``docs/trained-models.md`` and the text around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.machine import machine
from benchmarks.stages import SPEC, Result
from benchmarks.training.agreement import Agreement, agreement
from benchmarks.training.trainings import OPTIMIZERS, STEPS, Training
from gpuconf.basics.units import MIB, sized

# For different kernels or a different order.  Float32 has 6e-8; a few training steps multiply that.
TOLERANCE = 1e-5
_TEXT = f"""# Models trained on the simulated GPU

Written by `make models`: each model is trained for {STEPS} steps from one seed, on the CPU only
and on the simulated GPU with the kernel bridge. TensorFlow's GPU device, its memory allocator, the
placement of operations, Keras and the training are real; the kernels are TensorFlow's own for the
CPU. Nothing here was compared with a real GPU, whose kernels round differently.

- **✓**: every loss, every weight after training and every prediction is equal to the last bit. On a
  GPU Keras uses **cuDNN's** LSTM and GRU, which the bridge computes in another order than a CPU:
  those cells give the largest difference, relative to the largest value of its array, and it must
  not be above {TOLERANCE:g}.
- **auto**: compiled as Keras does by default; the others have `jit_compile=False`. The GPU has no
  XLA here (no `--xla`) and runs these functions op by op. Only their losses are compared: weights
  whose true gradient is zero differ as soon as one bit does, because Adam scales rounding errors
  up.
- **Figures**: the peak on the GPU / on the CPU in MiB, the most that TensorFlow's allocator had in
  use, less what was in use before. It includes no CUDA context and no cuDNN workspace, but scratch
  memory of the CPU's kernels, up to some 30 MiB in the gradients of convolutions.
- **CPU's defaults**: the CPU side runs with `TF_ENABLE_ONEDNN_OPTS=0` and without grappler's
  remapper and layout optimizer. This column is the relative difference between the GPU's last loss
  with {OPTIMIZERS[0]} and that of a CPU with its defaults: the effect of rounding on this training.
  Models with batch norm on images of a few pixels are chaotic, with or without a GPU; they have no
  *auto*.
- A model also fails unless every float variable and the output are on `GPU:0`, more nodes of the
  graphs were placed there than elsewhere, and the GPU's memory held at least the variables.

"""
_COLUMNS = (*OPTIMIZERS, f"{OPTIMIZERS[0]}, auto")
_HEAD = (
    f"| model | {' | '.join(_COLUMNS)} | CPU's defaults |",
    f"|---|{'---|' * len(_COLUMNS)}---:|",
)


class Row(NamedTuple):
    """A training run on the CPU, on the GPU, and for some rows on a CPU with its defaults."""

    training: Training
    on_cpu: Result
    on_card: Result
    on_default: Result | None

    @property
    def agreement(self) -> Agreement:
        """Of losses, weights and predictions; only of losses if XLA was requested."""
        arrays = [self.on_cpu.arrays, self.on_card.arrays]
        if self.training.as_keras_does:
            arrays = [{k: v for k, v in each.items() if k == "losses"} for each in arrays]
        return agreement(*arrays)

    @property
    def errors(self) -> list[str]:
        """The errors of the sides, one per line."""
        results = {"CPU": self.on_cpu, "card": self.on_card}
        return [f"{side}: {result.error}" for side, result in results.items() if result.error]

    @property
    def agrees(self) -> bool:
        """Whether both sides trained with equal results."""
        tolerance = 0.0 if self.training.same_kernels else TOLERANCE
        return not self.errors and self.agreement.within(tolerance)


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    right = sum(row.agrees for row in rows)
    equal = sum(row.agrees and row.training.same_kernels for row in rows)
    models = len({row.training.model.name for row in rows})
    count = (
        f"{right} of {len(rows)} trainings of {models} models agree; {equal} are bit-equal in "
        "losses, weights and predictions."
    )
    return f"{_TEXT}{simulated_machine()}\n\n{count}\n\n{table(rows)}\n"


def simulated_machine() -> str:
    """The date, and the facts that the figures depend on."""
    return (
        f"{machine('tensorflow', 'keras')}; simulated GPU: {SPEC.name}, "
        f"{sized(SPEC.total_bytes)} of which the desktop holds {sized(SPEC.used_bytes)}"
    )


def table(rows: Sequence[Row]) -> str:
    """A line for each model, followed by the errors."""
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        by_model.setdefault(row.training.model.name, []).append(row)
    problems = [f"- {row.training.name}: {error}" for row in rows for error in row.errors]
    lines = (_line(name, each) for name, each in by_model.items())
    return "\n".join([*_HEAD, *lines, *([""] if problems else []), *problems])


def _line(model: str, rows: Sequence[Row]) -> str:
    trained = {row.training.column: _cell(row) for row in rows}
    default = next(filter(None, map(_default_in_words, rows)), "")
    return f"| {' | '.join((model, *(trained.get(name, '') for name in _COLUMNS), default))} |"


def _cell(row: Row) -> str:
    mark = "✓" if row.agrees else "✗"
    if row.errors:
        return mark
    found = row.agreement
    words = found.problem or (f"to {found.difference:.1e}" if found.difference else "")
    peaks = f"{mark} {_peak_mib(row.on_card)} / {_peak_mib(row.on_cpu)}"
    return f"{peaks}, {words}" if words else peaks


def _default_in_words(row: Row) -> str:
    if row.on_default is None or not row.on_default.facts or not row.on_card.facts:
        return ""
    seen, default = row.on_card.facts["loss"], row.on_default.facts["loss"]
    return f"{abs(seen - default) / abs(default):.1g}"


def _peak_mib(result: Result) -> str:
    facts = result.facts
    if not facts or facts["peak_bytes"] is None:
        return "–"
    return f"{(facts['peak_bytes'] - facts['before_bytes']) / MIB:.2f}"
