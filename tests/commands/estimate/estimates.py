"""Estimates with plain numbers, made by hand: what reports and pictures are tried with."""

from __future__ import annotations

from typing import Any

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.estimate.memory_estimate import (
    Advice,
    LayerRow,
    MemoryEstimate,
    Moment,
    Peak,
    Phase,
)
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    BACKWARD,
    DATA,
    FORWARD,
    GRADIENT,
    OPTIMIZER_STATE,
    OTHER_STATE,
    ROUNDING,
    TEMPORARY,
    UPDATE,
    WEIGHTS,
    WORKSPACE,
    TraceSetting,
)

SETTING = TraceSetting(
    training=True,
    jit=False,
    precision="float32",
    optimizer="Adam",
    loss="mse",
    backend="tensorflow",
    framework="tensorflow 2.21.0, keras 3.15.1",
)
STAYS = {WEIGHTS: 100 * MIB, OPTIMIZER_STATE: 200 * MIB, OTHER_STATE: 12}
AT_PEAK = {
    ACTIVATION: 500 * MIB,
    GRADIENT: 40 * MIB,
    TEMPORARY: 30 * MIB,
    DATA: 20 * MIB,
    WORKSPACE: 64 * MIB,
    ROUNDING: 70 * MIB - 12,
}
PEAK_BYTES = 1024 * MIB
LAYERS = (
    LayerRow("stem/conv", "Conv2D", 20 * MIB, 20 * MIB, 40 * MIB, 300 * MIB, 30 * MIB),
    LayerRow("head/dense", "Dense", 80 * MIB, 20 * MIB, 160 * MIB, 0),
    LayerRow("relu", "ReLU", 0, 0, 0, 200 * MIB),
    LayerRow(None, "", other_bytes=154 * MIB),
)
PHASES = (Phase(100 * MIB, 16.6 * MIB, 32, "grad/stem/conv/Filter", "stem/conv", BACKWARD),)


def moment(part: str, layer: str | None, position: int = 0, **kinds: int) -> Moment:
    """What stays, and ``kinds`` next to it."""
    return Moment(position, part, layer, f"{part}/{layer}", {**STAYS, **kinds})


def estimate(**changes: Any) -> MemoryEstimate:
    """Batch 32 of a small network: 1 GiB at the peak, of which 300 MiB stay."""
    made = MemoryEstimate(
        batch_size=32,
        peak_bytes=PEAK_BYTES,
        resident_bytes=sum(STAYS.values()),
        setting=SETTING,
        peak=Peak("grad/stem/conv/Filter", "stem/conv", BACKWARD),
        layers=LAYERS,
        phases=PHASES,
        timeline=(
            moment(FORWARD, None, data=20 * MIB),
            moment(FORWARD, "stem/conv", data=20 * MIB, activation=300 * MIB),
            moment(FORWARD, "relu", data=20 * MIB, activation=500 * MIB),
            moment(BACKWARD, "stem/conv", **AT_PEAK),
            moment(BACKWARD, "relu", gradient=40 * MIB, temporary=100 * MIB),
            moment(UPDATE, None, gradient=40 * MIB),
        ),
        workspace_bytes=64 * MIB,
        rounding_bytes=70 * MIB - 12,
    )
    return made._replace(**changes)


ADVICE = (
    Advice("mixed precision", "keras.config.set_dtype_policy('mixed_float16')", 600 * MIB,
           424 * MIB, True),
    Advice("stochastic gradient descent", "model.compile('sgd')", 1000 * MIB, 24 * MIB, False),
)  # fmt: skip
FITS = {"limit_bytes": 2 * GIB, "largest_batch": 84}
TOO_LARGE = {"limit_bytes": 900 * MIB, "largest_batch": 24, "advice": ADVICE}
HOPELESS = {"limit_bytes": 200 * MIB, "largest_batch": 0}
INFERENCE = {"setting": SETTING._replace(training=False, optimizer=None, loss=None)}
BARE = {"setting": None, "layers": (), "phases": (), "timeline": ()}
