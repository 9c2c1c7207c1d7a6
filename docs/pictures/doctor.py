"""`gpuconf doctor` on a simulated GPU, with two variables that do not do what they say."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures.terminal import printed  # next to this file, in a folder that no package holds
from transcripts import environment

from gpuconf.basics.units import MIB
from gpuconf.simcard import CardSpec, simulated_card

VARIABLES = {"TF_FORCE_GPU_ALLOW_GROWTH": "1", "CUDA_VISIBLE_DEVICES": "0,7"}
PROMPT = " ".join([*(f"{name}={value}" for name, value in VARIABLES.items()), "gpuconf doctor"])
ABOUT = (
    "gpuconf doctor: two warnings, each with the command that fixes it, and the GPU as a bar: "
    "what others use, what the profile allows, what is left"
)
CARD = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB)


def output() -> str:
    """What it prints there, with colors."""
    with simulated_card(CARD) as card, tempfile.TemporaryDirectory(prefix="picture-") as name:
        home = Path(name)
        clean = environment(home, os.environ)
        clean.pop("NO_COLOR")
        environ = card.environment({**clean, **VARIABLES})
        return printed(["gpuconf", "doctor"], environ, home)
