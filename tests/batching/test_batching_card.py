"""The GPU that batching reads its limit from: TensorFlow's allocator for the CPU is one too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from tests.programs import warm
from tests.programs.inside_tensorflow import PLAIN
from tests.programs.processes import REPORT, reported, run

pytestmark = pytest.mark.slow

USES_BFC, LIMIT = "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"
# What the variables say -> the limit in MiB, None for none that is known.
LIMITS = [
    ({USES_BFC: "true", LIMIT: "64"}, 64),
    ({USES_BFC: "1", LIMIT: "2048"}, 2048),
    ({USES_BFC: "TRUE", LIMIT: "64"}, 64),
    ({USES_BFC: "false", LIMIT: "64"}, None),  # TensorFlow's usual allocator has no limit
    ({LIMIT: "64"}, None),
    ({USES_BFC: "true"}, None),
    ({USES_BFC: "true", LIMIT: "64MiB"}, None),
]


def test_the_limit_of_the_cpus_allocator(tmp_path: Path) -> None:
    """It is the limit that TensorFlow without a GPU keeps; None where no variable sets one."""
    program = f"""
import json, os, sys
import tensorflow as tf
from gpuconf.batching.card import current_card

def fits(size_bytes):
    try:
        return tf.zeros([size_bytes], tf.int8).shape == [size_bytes]
    except tf.errors.ResourceExhaustedError:
        return False

card = current_card()
report(name=card.name, framework=card.framework)
report(fits=[fits(card.limit_bytes * eighths // 8) for eighths in (7, 9)])
limits = []
for variables in json.loads(sys.argv[1]):
    for name in ("{USES_BFC}", "{LIMIT}"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    limits.append(current_card().limit_bytes)
report(limits=limits)
"""
    file = tmp_path / "program.py"
    file.write_text(REPORT + program, encoding="utf-8")
    first, _ = LIMITS[0]
    command = [sys.executable, str(file), json.dumps([variables for variables, _ in LIMITS])]
    done = run(command, tmp_path, environ={**PLAIN, **first, warm.VARIABLE: "1"}, timeout_s=120)
    assert done.returncode == 0, done.stderr
    told = reported(done.stdout)
    assert (told["name"], told["framework"]) == ("CPU:0", "tensorflow")
    assert told["fits"] == [True, False]
    assert told["limits"] == [mib and mib * MIB for _, mib in LIMITS]
