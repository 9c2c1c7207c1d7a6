"""``gpuconf demo``: run the same training with and without gpuconf, on a simulated GPU."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import gpuconf.commands.demo
from gpuconf.basics.units import MIB, sized
from gpuconf.commands.cli.output import Output
from gpuconf.commands.demo import report
from gpuconf.commands.demo.quick import (
    TENSOR,
    quick_after_lines,
    quick_before_lines,
    quick_holds,
    run_quick_half,
)
from gpuconf.commands.demo.runner import ProgramDiedError, Runner, ScriptRun
from gpuconf.commands.demo.story import PROFILE, Progress, holds, run_scenario
from gpuconf.errors import MissingDependencyError
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.profile import load_profile
from gpuconf.session.plans import plan_within
from gpuconf.simcard import (
    CardSpec,
    bridge_for_command,
    check_gpu_build,
    simulated_card,
)
from gpuconf.support.reporting.lines import Line

# context_bytes is what a CUDA context takes on real GPUs; see configs/half-card.yaml.
SPEC = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, context_bytes=450 * MIB)
_WIDTH = 100
_NEEDED = {
    "tensorflow": (
        "the demo needs TensorFlow, which is not installed",
        "pip install tensorflow, or `tensorflow[and-cuda]` for a GPU",
    ),
    "sklearn": (
        "the demo needs the digits data set from scikit-learn, which is not installed",
        "pip install scikit-learn; or, without it: gpuconf demo --quick",
    ),
}
_HALVES = ("Without gpuconf", f"with `import gpuconf.auto` on top, GPUCONF_PROFILE={PROFILE}")
_SIMULATED = (
    "On a simulated GPU: {card} by the desktop.\n"
    "Real: TensorFlow, its GPU device{real}. Simulated: the driver and the GPU, where a CUDA "
    "context counts {context}. {absent}"
)
_REAL_NUMBERS = ", its memory allocator, and the numbers, which its CPU kernels compute"
_NO_NUMBERS = " and its memory allocator"
_NO_XLA = (
    "Not simulated: cuDNN's workspaces and XLA (functions run op by op), so the peak would differ "
    "on a real GPU."
)
_NO_TRAINING = "Nothing is computed: `gpuconf demo` without --quick trains a network."
_PROGRAMS = Path(gpuconf.commands.demo.__file__).with_name("programs")


class _Scene(NamedTuple):
    """Where the demo runs: a title, the GPU, and an environment that shows only that GPU."""

    title: str
    environ: dict[str, str]
    gpu: Gpu
    free_bytes: Callable[[], int]


# Prints the demo, and returns the runs if they did not go as expected.
_Tell = Callable[[_Scene, Runner, Output], list[ScriptRun]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    parser.description = (
        "Train a small network on handwritten digits, twice at the same time on a "
        "crowded GPU, without and with `import gpuconf.auto`. The GPU is simulated, so the demo "
        "uses no memory of a real one: TensorFlow's own GPU device and allocator run on a stand-in "
        "driver, and its CPU kernels compute."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"run {TENSOR} twice at once instead of the training, first without the line, then "
        "with it; needs neither scikit-learn nor a C++ compiler",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Run both halves; exit 0 if the runs went as expected, 1 if not."""
    try:
        _check_installed(["tensorflow"] if options.quick else list(_NEEDED))
        with _scene(output.progress, computes=not options.quick) as scene:
            return _play(scene, output, _tell_quickly if options.quick else _tell)
    except MissingDependencyError as error:
        _tell_what_cannot_be_shown(error, output)
        return error.exit_code


def _check_installed(modules: Iterable[str]) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            missing, hint = _NEEDED[module]
            raise MissingDependencyError(missing, hint=hint)


def _play(scene: _Scene, output: Output, tell: _Tell) -> int:
    titles = report.lines_of(scene.title.splitlines())
    output.lines((line._replace(style="bold") for line in titles), width=_width(output))
    runner = Runner(sys.executable, scene.environ, programs=(_PROGRAMS,))
    try:
        unexpected = tell(scene, runner, output)
    except ProgramDiedError as error:
        output.note(error.run.log[-2000:])
        raise
    finally:
        runner.close()
    if unexpected:
        output.note("the runs did not go as expected; the last lines of the logs:")
    for run in unexpected:
        output.note(run.log[-2000:])
    return 1 if unexpected else 0


def _tell(scene: _Scene, runner: Runner, output: Output) -> list[ScriptRun]:
    """Run the full demo; return the runs if they did not go as expected."""
    before = run_scenario(runner, scene.free_bytes, output.progress, profile=None)
    _section(output, _HALVES[0], report.before_lines(before))
    after = run_scenario(runner, scene.free_bytes, output.progress, profile=PROFILE)
    _section(output, f"The same scripts {_HALVES[1]}", report.after_lines(after, before))
    why = report.why_lines(before.left_bytes, before.second, _arithmetic(scene.gpu))
    _section(output, "Why", why)
    runs = [run for half in (before, after) for run in (half.first, half.second, half.ninety)]
    return [] if holds(before, after) else runs


def _tell_quickly(scene: _Scene, runner: Runner, output: Output) -> list[ScriptRun]:
    """Run the short demo; return the runs if they did not go as expected."""
    before = run_quick_half(runner, scene.free_bytes, output.progress, profile=None)
    _section(output, _HALVES[0], quick_before_lines(before))
    after = run_quick_half(runner, scene.free_bytes, output.progress, profile=PROFILE)
    _section(output, f"The same script {_HALVES[1]}", quick_after_lines(after))
    why = report.why_lines(before.left_bytes, before.second, _arithmetic(scene.gpu))
    _section(output, "Why", why)
    runs = [run for half in (before, after) for run in (half.first, half.second)]
    return [] if quick_holds(before, after) else runs


def _section(output: Output, heading: str, lines: list[str]) -> None:
    output.line()
    output.lines([Line(heading, "bold", 0), *report.lines_of(lines)], width=_width(output))


def _width(output: Output) -> int:
    """Return the terminal's width, at most _WIDTH; always _WIDTH without a terminal."""
    return min(_WIDTH, output.width or _WIDTH)


@contextmanager
def _scene(progress: Progress, *, computes: bool = True) -> Iterator[_Scene]:
    """Yield the simulated GPU, with the bridge if it ``computes``."""
    bridge = None
    if computes:
        bridge = bridge_for_command([sys.executable], environ=os.environ, progress=progress)
    else:
        check_gpu_build([sys.executable], os.environ)
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
        title = _SIMULATED.format(
            card=_describe(gpu),
            context=sized(SPEC.context_bytes),
            real=_REAL_NUMBERS if computes else _NO_NUMBERS,
            absent=_NO_XLA if computes else _NO_TRAINING,
        )
        environ = card.environment(_without_our_variables(os.environ), bridge=bridge)
        yield _Scene(title, environ, gpu, card.free_bytes)


def _describe(gpu: Gpu) -> str:
    used = sized(SPEC.used_bytes)
    return f"{gpu.name}, {sized(SPEC.total_bytes)}, of which {used} are used"


def _without_our_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that would change how the scripts behave."""
    ours = ("GPUCONF_", "CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_", "TF_CPP_")
    kept = {name: value for name, value in environ.items() if not name.startswith(ours)}
    return {**kept, "KERAS_BACKEND": "tensorflow"}


def _capability() -> tuple[int, int]:
    major, minor = SPEC.compute_capability.split(".")
    return int(major), int(minor)


def _arithmetic(gpu: Gpu) -> tuple[str, ...]:
    plan = plan_within(load_profile(PROFILE), environ={}, read=lambda: Inventory((gpu,)))
    return plan.gpus[0].arithmetic if plan.gpus else ()


def _tell_what_cannot_be_shown(error: MissingDependencyError, output: Output) -> None:
    """Print the plan without TensorFlow or a compiler: its effect cannot be shown here."""
    gpu = Gpu(
        index=0,
        name="a GPU",
        total_bytes=SPEC.total_bytes,
        free_bytes=SPEC.total_bytes - SPEC.used_bytes,
        compute_capability=_capability(),
    )
    output.prose(f"Nothing can be run: {error.message}.")
    output.prose(
        "So this demo cannot show a program that takes the whole GPU, a second one that runs out "
        "of memory next to it, or both running with a limit each. It can show what would be set:"
    )
    used = f"of which {sized(SPEC.used_bytes)} are used by others"
    heading = f"{PROFILE} on a GPU of {sized(SPEC.total_bytes)}, {used}"
    _section(output, heading, [f"   {line}" for line in _arithmetic(gpu)])
    output.error(error)
