"""``gpuconf demo``: the main job, before and after, on a real GPU or the simulated card."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import gpuconf.demo
from gpuconf.cli.output import Output
from gpuconf.demo import report
from gpuconf.demo.card_choice import CardChoice, choose_card
from gpuconf.demo.runner import ProgramDiedError, Runner
from gpuconf.demo.story import PROFILE, Progress, holds, run_half
from gpuconf.errors import MissingDependencyError
from gpuconf.hardware import Gpu, Inventory
from gpuconf.leases.folder import VARIABLE as LEASES_VARIABLE
from gpuconf.leases.view import read_with_leases
from gpuconf.machine_plan import plan_for
from gpuconf.profile import load_profile
from gpuconf.reporting.lines import Line
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card
from gpuconf.units import MIB, sized

# A context of what real ones cost, see configs/half-card.yaml.
SPEC = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, context_bytes=450 * MIB)
_WIDTH = 100
_NEEDED = {
    "tensorflow": (
        "the demo runs TensorFlow, which is not installed",
        "pip install tensorflow, or `tensorflow[and-cuda]` for a GPU",
    ),
    "sklearn": (
        "the demo trains on the digits that come with scikit-learn, which is not installed",
        "pip install scikit-learn",
    ),
}
_PROGRAMS = Path(gpuconf.demo.__file__).with_name("programs")
# NVML knows nothing of CUDA_VISIBLE_DEVICES: the scene's card is found by its UUID or index.
_READ_FREE = """
import json, sys
from gpuconf.hardware import match_uuid, read_inventory
gpus = read_inventory().gpus
found = match_uuid(sys.argv[1], gpus) or [gpu for gpu in gpus if str(gpu.index) == sys.argv[1]]
print(json.dumps(found[0].free_bytes if found else None))
"""


class _Scene(NamedTuple):
    """Where the story plays: a title, the card, and the environment that shows just that card."""

    title: str
    environ: dict[str, str]
    gpu: Gpu


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe this command, and add its arguments."""
    parser.description = (
        "Train a small network on handwritten digits, twice at once on a crowded "
        "card, without and with `import gpuconf.auto`. On a real GPU, the first that "
        "CUDA_VISIBLE_DEVICES shows, that takes all of the card's free memory for about a minute; "
        "where other programs compute on it, or there is none, a simulated card is used: "
        "TensorFlow's real GPU device and allocator over a stand-in driver, its CPU kernels "
        "computing."
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--simulated", action="store_true", help="use the simulated card even if there is a GPU"
    )
    where.add_argument(
        "--real",
        action="store_true",
        help="use the GPU even if other programs compute on it: they may run out of memory",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Play both halves; exit 0 if the runs went as expected, 1 if not."""
    for module, (missing, hint) in _NEEDED.items():
        if importlib.util.find_spec(module) is None:
            raise MissingDependencyError(missing, hint=hint)
    simulated = CardChoice(None, "it was asked for")
    choice = simulated if options.simulated else _real_card(output, even_if_used=options.real)
    try:
        with _scene(choice, output.progress) as scene:
            return _play(scene, output)
    except MissingDependencyError as error:
        _tell_what_cannot_be_shown(error, output)
        return error.exit_code


def _play(scene: _Scene, output: Output) -> int:
    titles = report.lines_of(scene.title.splitlines())
    output.lines((line._replace(style="bold") for line in titles), width=_width(output))
    runner = Runner(sys.executable, scene.environ, programs=(_PROGRAMS,))
    try:
        before = run_half(runner, lambda: _free_bytes(scene), output.progress, profile=None)
        _section(output, "Without gpuconf", report.before_lines(before))
        after = run_half(runner, lambda: _free_bytes(scene), output.progress, profile=PROFILE)
    except ProgramDiedError as error:
        output.note(error.run.log[-2000:])
        raise
    finally:
        runner.close()
    heading = f"The same scripts with `import gpuconf.auto` on top, GPUCONF_PROFILE={PROFILE}"
    _section(output, heading, report.after_lines(after, before))
    _section(output, "Why", report.why_lines(before, _arithmetic(scene.gpu)))
    if holds(before, after):
        return 0
    output.note("the runs did not go as expected; the ends of the logs:")
    for half in (before, after):
        for run in (half.first, half.second, half.ninety):
            output.note(run.log[-2000:])
    return 1


def _section(output: Output, heading: str, lines: list[str]) -> None:
    output.line()
    output.lines([Line(heading, "bold", 0), *report.lines_of(lines)], width=_width(output))


def _width(output: Output) -> int:
    """The terminal's width, as far as lines are easy to read; programs get the same always."""
    return min(_WIDTH, output.width or _WIDTH)


def _real_card(output: Output, *, even_if_used: bool) -> CardChoice:
    """The caller's own GPU; where it is none, that is said."""
    choice = choose_card(read_with_leases(), os.environ, even_if_used=even_if_used)
    if choice.gpu is None:
        output.note(f"not on a real GPU: {choice.because}")
    return choice


@contextmanager
def _scene(choice: CardChoice, progress: Progress) -> Iterator[_Scene]:
    cleared = _without_our_variables(os.environ)
    if choice.gpu is not None:
        title = f"On this machine's GPU {choice.gpu.index}: {_describe(choice.gpu)}"
        # Under `gpuconf.simcard run` the machine's GPU is a simulated one, known by these.
        kept = ("GPUCONF_SIMCARD_", LEASES_VARIABLE)  # the ledger is the card's
        given = {k: v for k, v in os.environ.items() if k.startswith(kept)}
        yield _Scene(title, {**cleared, **given, **choice.variables}, choice.gpu)
        return
    bridge = bridge_for_command([sys.executable], environ=os.environ, progress=progress)
    with simulated_card(SPEC) as card:
        gpu = Gpu(
            index=0,
            name=SPEC.name,
            uuid=card.uuid(),
            total_bytes=SPEC.total_bytes,
            free_bytes=card.free_bytes(),
            used_bytes=SPEC.used_bytes,
            compute_capability=_capability(),
        )
        title = (
            f"On a simulated card: {_describe(gpu)} by the desktop.\n"
            "Real: TensorFlow, its GPU device, its memory allocator, and the numbers, which its "
            "CPU kernels compute. Simulated: the driver and the card, where a CUDA context "
            f"counts {sized(SPEC.context_bytes)}. Not there: cuDNN's workspaces and XLA (functions "
            "run op by op), so the peak would differ on a real GPU."
        )
        yield _Scene(title, card.environment(cleared, bridge=bridge), gpu)


def _describe(gpu: Gpu) -> str:
    if gpu.total_bytes is None or gpu.used_bytes is None:
        return gpu.name or "unnamed"
    return f"{gpu.name}, {sized(gpu.total_bytes)}, of which {sized(gpu.used_bytes)} are used"


def _without_our_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would change the scripts' behaviour."""
    ours = ("GPUCONF_", "CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_", "TF_CPP_")
    kept = {name: value for name, value in environ.items() if not name.startswith(ours)}
    return {**kept, "KERAS_BACKEND": "tensorflow"}


def _free_bytes(scene: _Scene) -> int | None:
    """What NVML says is free now, asked by a process on the scene's own card."""
    asked = subprocess.run(
        [sys.executable, "-c", _READ_FREE, scene.gpu.uuid or str(scene.gpu.index)],
        env=scene.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    free = json.loads(asked.stdout)
    return None if free is None else int(free)


def _capability() -> tuple[int, int]:
    major, minor = SPEC.compute_capability.split(".")
    return int(major), int(minor)


def _arithmetic(gpu: Gpu) -> tuple[str, ...]:
    plan = plan_for(load_profile(PROFILE), environ={}, read=lambda: Inventory((gpu,)))
    return plan.gpus[0].arithmetic if plan.gpus else ()


def _tell_what_cannot_be_shown(error: MissingDependencyError, output: Output) -> None:
    """No GPU and no compiler: the plan can still be computed, its effect cannot be shown."""
    gpu = Gpu(
        index=0,
        name="a card",
        total_bytes=SPEC.total_bytes,
        free_bytes=SPEC.total_bytes - SPEC.used_bytes,
        compute_capability=_capability(),
    )
    lines = [f"   {line}" for line in _arithmetic(gpu)]
    output.prose(
        "No GPU to use here, and no simulated card, so nothing can be run. What would be set:"
    )
    _section(output, f"{PROFILE} on a card of {sized(SPEC.total_bytes)}", lines)
    output.error(error)
