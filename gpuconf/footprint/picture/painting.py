"""The colours that both panels of an estimate's picture share."""

from __future__ import annotations

from gpuconf.footprint.step import (
    ACTIVATION,
    BACKWARD,
    CONSTANT,
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
)

# From the bottom of the stack to its top: what stays is blue, what comes and goes is not.
KINDS = {
    WEIGHTS: "#1d3f5e",
    OPTIMIZER_STATE: "#2a6f97",
    OTHER_STATE: "#7fa8c4",
    CONSTANT: "#8d99a6",
    DATA: "#5b8c5a",
    ACTIVATION: "#e0a33b",
    GRADIENT: "#c8553d",
    TEMPORARY: "#8a6bb1",
    WORKSPACE: "#b98b6a",
    ROUNDING: "#cfd6dc",
}
PARTS = {FORWARD: "#f4f1ea", BACKWARD: "#e6eef4", UPDATE: "#eef2e6"}
