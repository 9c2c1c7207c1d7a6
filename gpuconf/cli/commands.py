"""The commands of ``gpuconf``, by name; the module of each is imported when it is asked for."""

from __future__ import annotations

# The name, which is also that of the module in this folder, and the line that --help shows.
COMMANDS = {
    "plan": "show what a profile would do here and now",
    "profiles": "list, show and check profiles",
    "trust": "let a profile that is found in a project set every variable",
    "init": "write a gpuconf.yaml that fits this machine",
    "doctor": "find what is wrong with this machine, and print the command that fixes it",
    "explain": "say from a log why a run failed, and what to change",
    "estimate": "say what a model will take of a GPU's memory, and which batch fits",
    "rehearse": "run a training script for a few steps on a simulated card: does it fit?",
    "demo": "watch a training die on a crowded card, and live with one line more",
}
