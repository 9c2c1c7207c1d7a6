"""``gpuconf plan``: show what a profile would do on this machine now, and the calculation."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconf.basics.environment import switched_off
from gpuconf.basics.units import sized
from gpuconf.commands.cli.output import Output
from gpuconf.commands.run.request import Request, add_changes, request_of
from gpuconf.errors import UsageError
from gpuconf.planner import GpuPlan, Plan
from gpuconf.planner.plan import FRAMEWORKS
from gpuconf.session import run_variable
from gpuconf.session.environment import environment_for, is_installed
from gpuconf.session.plans import plan_within
from gpuconf.support.reporting.lines import Line

if TYPE_CHECKING:
    from gpuconf.basics.setting import Setting
    from gpuconf.commands.cli.documents import PlanDocument, PlannedGpu


_GROWTH = {
    "true": "on: memory is allocated as needed",
    "false": "off: the whole limit is allocated at the start",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    parser.description = (
        "Show what a profile would do on this machine now: which GPUs a program "
        "would see, the memory limit on each and how it is calculated, and the environment "
        "variables "
        "that would be set. Changes nothing."
    )
    parser.add_argument(
        "profile",
        nargs="?",
        metavar="PROFILE",
        help="a profile's name, or a path to one (default: $GPUCONF_PROFILE, else the project's "
        "gpuconf.yaml, else your own, else shared-desktop); `gpuconf profiles list` shows "
        "the names",
    )
    add_changes(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--profile",
        dest="as_option",
        metavar="PROFILE",
        help="the same as PROFILE, as other commands spell it",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the plan.  A shortage is an error, with exit code 1."""
    show(_plan(asked(options)), options, output)
    return 0


def show(plan: Plan, options: argparse.Namespace, output: Output) -> None:
    """Print a plan, the variables that would be set, and the notes."""
    if switched_off(os.environ) is not None:
        off = "GPUCONF_DISABLE is set, so `import gpuconf.auto` does none of this"
        plan = plan._replace(notes=(*plan.notes, off))
    changes, settings = environment_for(plan.profile, plan)
    if output.as_json:
        output.document(document_of(plan, changes, settings))
        return
    output.lines(report_lines(plan, changes, settings))
    for note in notes_of(plan, settings):
        output.note(f"note: {note}")
    if plan.unknown_gpu is not None and plan.notes and sys.platform == "linux":
        command = shlex.join(["gpuconf", "plan", *filter(None, [options.profile])])
        simcard = f"python -m gpuconf.simcard run --total 8GiB -- {command}"
        output.note(f"  hint: try it on a simulated GPU: {simcard}")


def asked(options: argparse.Namespace) -> Request:
    """Return the requested profile and changes; raise UsageError if two profiles are named."""
    if options.as_option is not None:
        if options.profile not in (None, options.as_option):
            raise UsageError(
                f"two profiles were given: {options.profile} and {options.as_option}",
                hint=f"gpuconf plan {shlex.quote(options.as_option)}",
            )
        options.profile = options.as_option
    return request_of(options)


def _plan(request: Request) -> Plan:
    """Return the plan for ``request``; inside a run, the run's plan if nothing is requested."""
    run = run_variable.read(os.environ) if request.is_default else None
    if run is None:
        return plan_within(request.load())
    plan = plan_within(run.profile, read=lambda: run.inventory)
    return plan._replace(notes=("this is inside a gpuconf run or shell, whose plan applies",))


def document_of(plan: Plan, changes: dict[str, str], settings: list[Setting]) -> PlanDocument:
    """Return the plan as the ``--json`` document."""
    from gpuconf.commands.cli.documents import PlanDocument

    return PlanDocument(
        profile=plan.profile.name,
        source=plan.profile.source,
        gpus=tuple(_gpu_document(gpu) for gpu in plan.gpus),
        environment=changes,
        conflicts=tuple(setting for setting in settings if setting.why_not),
        notes=plan.notes,
    )


def _gpu_document(plan: GpuPlan) -> PlannedGpu:
    from gpuconf.commands.cli.documents import PlannedGpu

    gpu = plan.gpu
    return PlannedGpu(
        uuid=gpu.uuid,
        name=gpu.name,
        index=gpu.index,
        total_bytes=gpu.total_bytes,
        free_bytes=gpu.free_bytes,
        promised_bytes=gpu.promised_bytes,
        ahead=gpu.ahead,
        limit_bytes=plan.limit_bytes,
        lease_bytes=plan.lease_bytes,
        allow_growth=plan.allow_growth,
        logical_devices_bytes=plan.logical_devices_bytes,
        arithmetic=plan.arithmetic,
        limits={limit.framework: limit for limit in plan.limits},
    )


def report_lines(plan: Plan, changes: dict[str, str], settings: list[Setting]) -> Iterator[Line]:
    """Yield the plan as text, with the variables that would be set."""
    source = f"  {plan.profile.source}" if plan.profile.source else ""
    yield Line(f"profile {plan.profile.name}{source}", "bold", None)
    for gpu in plan.gpus:
        yield Line()
        yield from gpu_lines(gpu, settings)
    if plan.unknown_gpu is not None:
        yield Line()
        yield Line("any GPU a framework finds", "bold", None)
        yield from rule_lines(plan.unknown_gpu, settings)
    if plan.hides_gpus:
        yield Line()
        yield Line("no GPU: frameworks run on the CPU", "bold", None)
    yield Line()
    yield Line("environment", "bold", None)
    yield from environment_lines(changes)


def notes_of(plan: Plan, settings: list[Setting]) -> list[str]:
    """Return notes on what the machine lacks and on variables with a different value."""
    return [*plan.notes, *(str(setting) for setting in settings if setting.why_not)]


def environment_lines(changes: dict[str, str]) -> Iterator[Line]:
    """Yield the variables that would be set."""
    yield from (Line(f"  {name}={value}", hang=None) for name, value in changes.items())
    if not changes:
        yield Line("  nothing is set", hang=None)


def gpu_lines(plan: GpuPlan, settings: list[Setting], *, when: str = "now") -> Iterator[Line]:
    """Yield a GPU, the processes that hold it, and the calculation of its limit.

    ``when`` is the time at which its figures were read.
    """
    gpu = plan.gpu
    total = sized(gpu.total_bytes, cut=True) if gpu.total_bytes is not None else "unknown"
    free = sized(gpu.free_bytes, cut=True) if gpu.free_bytes is not None else "unknown"
    limit = "no limit" if plan.limit_bytes is None else f"limit {sized(plan.limit_bytes)}"
    yield Line(f"GPU {gpu.index}  {gpu.name or 'unnamed'}  {limit}", "bold", None)
    yield Line(f"  total {total}, free {when} {free}", hang=4)
    for process in gpu.unleased:  # leased ones have a line in the calculation
        held = sized(process.used_bytes) if process.used_bytes is not None else "unknown size"
        yield Line(f"  used by pid {process.pid} {process.name or ''}: {held}".rstrip(), hang=4)
    yield from rule_lines(plan, settings)


def rule_lines(plan: GpuPlan, settings: list[Setting]) -> Iterator[Line]:
    """Yield the calculation, and whether memory is allocated as needed."""
    growth = next((s.effective for s in settings if s.name == "TF_FORCE_GPU_ALLOW_GROWTH"), None)
    for line in plan.arithmetic:
        yield Line(f"  {line}", "green" if line.startswith("limit =") else "", 4)
    if growth is not None:
        held = f"{sized(plan.preallocated_bytes)} is allocated at the start, the rest as needed"
        text = f"on: {held}" if plan.preallocated_bytes else _GROWTH.get(growth, growth)
        yield Line(f"  allow_growth {text}", hang=4)
    # Of the frameworks of this Python; of all, if it has none, as with pipx.
    installed = [each for each in plan.limits if is_installed(each.framework)]
    for limit in installed or plan.limits:
        for line in limit.arithmetic:
            yield Line(f"  {FRAMEWORKS[limit.framework]}: {line}", hang=4)
