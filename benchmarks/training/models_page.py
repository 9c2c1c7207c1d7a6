"""The rows of ``docs/trained-models.md`` and the text around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.machine import machine
from benchmarks.stages import SPEC, Result
from benchmarks.training.agreement import Agreement, agreement
from benchmarks.training.trainings import STEPS, Training
from gpuconf.basics.units import MIB, sized

# For different kernels or a different order.  Float32 has 6e-8; a few training steps multiply that.
TOLERANCE = 1e-5
_TEXT = f"""# Models trained on the simulated GPU

Written by `make models`. Every row is a model trained for {STEPS} steps from the same seed, once
by TensorFlow on the CPU alone and once on the simulated GPU with the kernel bridge. Both are
compared.
**The GPU is simulated**: TensorFlow's GPU device, its memory allocator, the placement of every
operation, Keras and the training are real; the kernels are TensorFlow's own for the CPU,
registered again for the GPU. No row was compared with a real GPU, whose kernels round differently.

- **agree**: bit-equal means that every loss, every weight after training and every prediction is
  equal to the last bit. Other rows give the largest difference, relative to the largest value of
  its array (such as a weight). It must not be above {TOLERANCE:g}.
- Two kinds of rows cannot be bit-equal. On a GPU Keras uses **cuDNN's** LSTM and GRU, which the
  bridge computes in another order than Keras's loop on a CPU. Rows marked **auto** are compiled as
  Keras does by default, with XLA wherever there is a GPU. Here the GPU has no XLA (no `--xla`) and
  runs these functions op by op, and grappler simplifies them less than on a CPU. All other rows
  have `jit_compile=False`. For rows marked auto only the losses are compared: weights whose true
  gradient is zero, such as the bias of an attention's keys, differ freely as soon as one bit does,
  because Adam scales rounding errors up.
- **CPU's defaults**: the CPU side runs with `TF_ENABLE_ONEDNN_OPTS=0` and without grappler's
  remapper and layout optimizer, which fuse operations into kernels that the GPU lacks. This
  column is the relative difference between the GPU's last loss and that of a CPU with all its
  defaults, for one row of each model. It shows the effect of rounding alone on this training.
  Models with batch norm on images of a few pixels are chaotic, with or without a GPU; they have no
  row marked auto.
- **peak**: the most memory that TensorFlow's allocator had in use while the model was built and
  trained, less the memory in use before, from `tf.config.experimental.get_memory_info`. It includes
  no CUDA context and no cuDNN workspace, but scratch memory of the CPU's kernels, up
  to some 30 MiB in the gradients of convolutions. The CPU side uses the same allocator
  (`TF_CPU_ALLOCATOR_USE_BFC=true`), which there also serves the scratch of Eigen's products.
- A row also fails unless every float variable and the model's output are on `GPU:0`, more nodes of
  the graphs were placed there than elsewhere, and the GPU's memory held at least the variables.

"""
_HEAD = (
    "|  | model | optimizer | last loss | agree | CPU's defaults | peak on the card, MiB "
    "| on the CPU | variables |",
    "|---|---|---|---:|---|---:|---:|---:|---:|",
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
    """The rows, followed by the errors."""
    problems = [f"- {row.training.name}: {error}" for row in rows for error in row.errors]
    return "\n".join([*_HEAD, *map(_line, rows), *([""] if problems else []), *problems])


def _line(row: Row) -> str:
    facts = row.on_card.facts
    cells = (
        "✓" if row.agrees else "✗",
        row.training.model.name,
        row.training.optimizer + ", auto" * row.training.as_keras_does,
        f"{facts['loss']:.6f}" if facts else "–",
        _agreement_in_words(row),
        _default_in_words(row),
        _peak_mib(row.on_card),
        _peak_mib(row.on_cpu),
        f"{facts['variables_bytes'] / MIB:.2f}" if facts else "–",
    )
    return f"| {' | '.join(cells)} |"


def _agreement_in_words(row: Row) -> str:
    found = row.agreement
    if row.errors:
        return "–"
    if found.problem is not None:
        return found.problem
    words = "bit-equal" if found.difference == 0 else f"to {found.difference:.1e}"
    return f"losses {words}" if row.training.as_keras_does else words


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
