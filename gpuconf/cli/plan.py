"""``gpuconf plan``: what a profile would do on this machine now, with the arithmetic."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from gpuconf import run_plan
from gpuconf.cli.documents import PlanDocument, PlannedGpu
from gpuconf.cli.output import Output
from gpuconf.environ import switched_off
from gpuconf.errors import UsageError
from gpuconf.machine_plan import environment_for, plan_for
from gpuconf.planner import GpuPlan, Plan
from gpuconf.running.request import Request, add_changes, request_of
from gpuconf.units import sized

if TYPE_CHECKING:
    from gpuconf.settings import Setting


_GROWTH = {
    "true": "on: memory is taken step by step",
    "false": "off: what may be taken is taken at once",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe this command, and add its arguments."""
    parser.description = (
        "Show what a profile would do on this machine now: which GPUs a program "
        "would see, how much of each it may take and by what sum, and the environment variables "
        "that would be set. Changes nothing."
    )
    parser.add_argument(
        "profile",
        nargs="?",
        metavar="PROFILE",
        help="a profile's name, or a path to one (default: $GPUCONF_PROFILE, else the project's "
        "gpuconf.yaml, else shared-desktop); `gpuconf profiles list` shows the names",
    )
    add_changes(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--profile", dest="as_option", metavar="PROFILE", help="the same, as other commands have it"
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the plan; a shortage is an error, and exits 1."""
    if options.as_option is not None:
        if options.profile not in (None, options.as_option):
            raise UsageError(
                f"two profiles are named: {options.profile} and {options.as_option}",
                hint=f"gpuconf plan {shlex.quote(options.as_option)}",
            )
        options.profile = options.as_option
    plan = _plan(request_of(options))
    if switched_off(os.environ) is not None:
        off = "GPUCONF_DISABLE is set, so `import gpuconf.auto` does none of this"
        plan = plan._replace(notes=(*plan.notes, off))
    changes, settings = environment_for(plan.profile, plan)
    if output.as_json:
        output.document(document_of(plan, changes, settings))
    else:
        _print(plan, changes, settings, output)
        if plan.unknown_gpu is not None and plan.notes:
            command = shlex.join(["gpuconf", "plan", *filter(None, [options.profile])])
            simcard = f"python -m gpuconf.simcard run --total 8GiB -- {command}"
            output.note(f"  hint: try it on a simulated card: {simcard}")
    return 0


def _plan(request: Request) -> Plan:
    """The plan of ``request``; where nothing is asked for inside a run, the run's."""
    run = run_plan.read(os.environ) if request.is_default else None
    if run is None:
        return plan_for(request.load())
    plan = plan_for(run.profile, read=lambda: run.inventory)
    return plan._replace(notes=("this is inside a gpuconf run or shell, whose plan holds",))


def document_of(plan: Plan, changes: dict[str, str], settings: list[Setting]) -> PlanDocument:
    """The plan as ``--json`` prints it."""
    return PlanDocument(
        profile=plan.profile.name,
        source=plan.profile.source,
        gpus=tuple(_gpu_document(gpu) for gpu in plan.gpus),
        environment=changes,
        conflicts=tuple(setting for setting in settings if setting.why_not),
        notes=plan.notes,
    )


def _gpu_document(plan: GpuPlan) -> PlannedGpu:
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


def _print(plan: Plan, changes: dict[str, str], settings: list[Setting], output: Output) -> None:
    source = f"  {plan.profile.source}" if plan.profile.source else ""
    growth = next((s.effective for s in settings if s.name == "TF_FORCE_GPU_ALLOW_GROWTH"), None)
    output.line(f"profile {plan.profile.name}{source}", "bold")
    for gpu in plan.gpus:
        output.line()
        _print_gpu(gpu, growth, output)
    if plan.unknown_gpu is not None:
        output.line()
        output.line("any GPU a framework finds", "bold")
        _print_rules(plan.unknown_gpu, growth, output)
    if plan.hides_gpus:
        output.line()
        output.line("no GPU: frameworks run on the CPU", "bold")
    output.line()
    output.line("environment", "bold")
    for name, value in changes.items():
        output.line(f"  {name}={value}")
    if not changes:
        output.line("  nothing is set")
    for text in [*plan.notes, *(str(setting) for setting in settings if setting.why_not)]:
        output.note(f"note: {text}")


def _print_gpu(plan: GpuPlan, growth: str | None, output: Output) -> None:
    gpu = plan.gpu
    total = sized(gpu.total_bytes, cut=True) if gpu.total_bytes is not None else "unknown"
    free = sized(gpu.free_bytes, cut=True) if gpu.free_bytes is not None else "unknown"
    output.line(f"GPU {gpu.index}  {gpu.name or 'unnamed'}  {gpu.uuid or ''}".rstrip(), "bold")
    output.prose(f"  total {total}, free now {free}")
    for process in gpu.unleased:  # the others have a line of the sum
        held = sized(process.used_bytes) if process.used_bytes is not None else "unknown size"
        output.prose(f"  held by pid {process.pid} {process.name or ''}: {held}".rstrip())
    _print_rules(plan, growth, output)


def _print_rules(plan: GpuPlan, growth: str | None, output: Output) -> None:
    for line in plan.arithmetic:
        style = "green" if line.startswith("limit =") else None
        output.prose(f"  {line}", style)
    if growth is not None:
        output.prose(f"  allow_growth {_GROWTH.get(growth, growth)}")
    for line in plan.sums[len(plan.arithmetic) :]:
        output.prose(f"  {line}")
