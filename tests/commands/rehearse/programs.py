"""Scripts that are rehearsed on a simulated GPU, for the tests next to this file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpuconf.basics.units import GIB
from gpuconf.commands.rehearse.runs import Orders, RunResult, run_once
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card
from tests.programs.processes import clean_environment


def rehearse_script(
    folder: Path,
    *words: str,
    orders: Orders | None = None,
    total: int = 3 * GIB,
    count: int = 1,
    is_shown: bool = False,
    **environ: str,
) -> RunResult:
    """One run of Python with ``words`` on ``count`` new GPUs of ``total`` bytes each."""
    command = [sys.executable, *words]
    bridge = bridge_for_command(command, environ=os.environ)
    with simulated_card(CardSpec(total_bytes=total, count=count)) as card:
        variables = card.environment(clean_environment(folder, environ), bridge=bridge)
        return run_once(
            command,
            orders or Orders(),
            environ=variables,
            card=card,
            is_shown=is_shown,
            stdout_to_stderr=is_shown,
        )


def run_script(
    folder: Path, program: str, *options: str, orders: Orders | None = None, **environ: str
) -> RunResult:
    """One run of a program that imports no TensorFlow, without a GPU."""
    file = folder / "script.py"
    file.write_text(program, encoding="utf-8")
    return run_once(
        [sys.executable, *options, str(file)],
        orders or Orders(),
        environ=clean_environment(folder, environ),
        is_shown=False,
    )
