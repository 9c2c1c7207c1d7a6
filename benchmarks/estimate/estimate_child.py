"""The child process of an estimate: calls gpuconf, ``python -m estimate.estimate_child``.

The argument is JSON: cases of one model and one policy, and a limit in bytes or null.  Prints one
line for each case, ``ESTIMATED`` and JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from benchmarks.estimate.estimate_cases import MODELS, Case
from benchmarks.estimate.stage_child import compile_model, make_model
from benchmarks.estimate.stages import JIT_VARIABLE

TOLD = "ESTIMATED "


def ask_gpuconf(model: Any, case: Case, limit_bytes: int | None) -> dict[str, Any]:
    """Call ``gpuconf.estimate`` for a compiled model; nothing else here calls it.

    With a limit, memory is one region, and the peak in growing regions is not computed.
    """
    import gpuconf

    jit = bool(os.environ.get(JIT_VARIABLE))  # as in the measurement (stage_child.py)
    options: dict[str, Any] = {"training": case.is_training, "jit": jit}
    if (shape := MODELS[case.model].input_shape) is not None:
        options["input_shape"] = shape
    if limit_bytes is not None:
        options["limit"] = limit_bytes
    began = time.perf_counter()
    at_once = gpuconf.estimate(model, case.batch, allow_growth=False, **options)
    took_s = time.perf_counter() - began
    growing = None if limit_bytes is not None else gpuconf.estimate(model, case.batch, **options)
    return {
        "peak_bytes": growing and growing.peak_bytes,
        "one_region_bytes": at_once.peak_bytes,
        "resident_bytes": at_once.resident_bytes,
        "largest_batch": at_once.largest_batch,
        "took_s": round(took_s, 3),
    }


def estimate(model: Any, case: Case, limit_bytes: int | None) -> dict[str, Any]:
    """Return the estimate, or the exception."""
    compile_model(model, case)
    try:
        said = ask_gpuconf(model, case, limit_bytes)
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    return {"case": case.name, **said}


def main() -> int:
    """Estimate the given cases."""
    told = json.loads(sys.argv[1])
    cases = [Case(*each) for each in told["cases"]]
    model = make_model(cases[0])
    for case in cases:
        print(TOLD + json.dumps(estimate(model, case, told["limit_bytes"])), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
