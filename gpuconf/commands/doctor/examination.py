"""One examination: select the checks, gather the facts, run the checks, and build a Report."""

from __future__ import annotations

import os
import platform
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from gpuconf import __version__
from gpuconf.basics.environment import before_gpuconf, switched_off
from gpuconf.commands.doctor import PROBE_TIMEOUT_S
from gpuconf.commands.doctor.cards import cards_of
from gpuconf.commands.doctor.checks import CHECKS, run_check
from gpuconf.commands.doctor.checks.packages import cuda_plugins, tensorflow_name
from gpuconf.commands.doctor.facts import Facts, Interpreter, Packages
from gpuconf.commands.doctor.finding import Finding, crash
from gpuconf.commands.doctor.gathering import gather
from gpuconf.commands.doctor.gathering.interpreter import other_interpreter
from gpuconf.commands.doctor.report import ProfileInForce, Report
from gpuconf.errors import GpuconfError, ShortageError, UsageError
from gpuconf.machine.schedulers.on_slurm import SLURM_VARIABLES

if TYPE_CHECKING:
    from gpuconf.commands.doctor.live import LiveReport, ProbedFramework

# Variables that configure GPUs and frameworks; the rest do not belong in a bug report.
_STEERING = ("CUDA_", "GPUCONF_", "JAX_", "KERAS_", "NCCL_", "NVIDIA_", "PYTORCH_", "TF_", "XLA_")
_STEERING_NAMES = (
    *("LD_LIBRARY_PATH", "GPU_DEVICE_ORDINAL", "GPU_PORTION", "RUNAI_NUM_OF_GPUS"),
    *SLURM_VARIABLES,
)
_OURS = "GPUCONF_STATE"
_PIP = re.compile(r"(?<![\w-])pip(?= (?:un)?install )")
# NVIDIA_API_KEY is a registry password.  Terraform also uses TF_: TF_VAR_db_password, TF_TOKEN_….
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
_TERRAFORMS = ("TF_VAR_", "TF_TOKEN_", "TF_CLI_", "TF_CLOUD_", "TF_LOG", "TF_PLUGIN_")
_SCRIPTS_A_LINE = 100  # of progress
_SHOWN_PACKAGES = (
    "tensorflow",
    "tensorflow-cpu",
    "keras",
    "tf-keras",
    "jax",
    "jaxlib",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "torch",
    "torchvision",
    "numpy",
    "protobuf",
    "nvidia-cudnn-cu12",
    "nvidia-ml-py",
)


class ExaminationRequest(NamedTuple):
    """What to examine: ids of checks (none means all), scripts to read, whether to probe.

    ``python`` is another Python whose packages are examined. ``root`` is the folder with /proc,
    /dev, /sys and /etc; only tests set it to anything other than ``/``. ``parent`` describes the
    parent process if it requested this examination of itself.
    """

    ids: tuple[str, ...] = ()
    profile: str | None = None
    scripts: tuple[str, ...] = ()
    python: str | None = None
    probe: bool = False
    timeout_s: float = PROBE_TIMEOUT_S
    root: str = "/"
    parent: str | None = None


def examine(
    request: ExaminationRequest,
    *,
    environ: Mapping[str, str] = os.environ,
    progress: Callable[[str], None] = lambda _: None,
    command: str = "gpuconf doctor",
) -> Report:
    """Examine the machine, and scripts and GPUs if requested; raises only UsageError."""
    ids = _wanted_ids(request)
    python = None
    if request.python is not None:
        python = other_interpreter(request.python, environ=before_gpuconf(environ))
    scripts = _scripts(request)
    gathered = gather(
        profile=request.profile,
        root=request.root,
        environ=environ,
        script_folder=os.path.dirname(os.path.abspath(scripts[0])) if scripts else None,
        interpreter=python,
        parent=request.parent,
    )
    facts = gathered.facts
    findings = [
        *gathered.crashes,
        *(run_check(check, facts) for check in CHECKS if ids is None or check.id in ids),
    ]
    findings = _reported_once(findings, facts)
    if python is not None:
        findings = [_with_pip_of(python, each) for each in findings]
    findings += _chosen(_read_scripts(scripts, progress), ids)
    live = None
    if request.probe and (ids is None or any(each.startswith("live.") for each in ids)):
        live = _probe(request, facts.packages, ids, _refusal(findings, facts), progress)
        findings += _chosen(live.findings, ids)
    return Report(
        findings=tuple(findings),
        cards=cards_of(facts),
        made_at=datetime.now(tz=timezone.utc).astimezone().isoformat(timespec="seconds"),
        command=command,
        versions=tuple(_versions(facts)),
        environment=tuple(_steering(facts.environ)),
        profile=_profile(facts),
        probe=live.runs if live else None,
    )


def _reported_once(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """Report each problem in one finding, not in two with different commands.

    ``profile.plan`` reports a full GPU; a variable that undoes the profile is reported by the check
    for that variable.
    """
    troubles = {each.id: each for each in findings if each.status in ("warn", "fail")}
    merged_into = {}  # the id of a finding that adds nothing, and the one that takes its lines
    if isinstance(facts.profile.plan_error, ShortageError):
        merged_into["cards.memory"] = "profile.plan"
    undone = {each.variable or each.name for each in facts.profile.settings if each.why_not}
    about = {
        name: each.id
        for name in undone
        for each in troubles.values()
        if each.id.startswith("environment.") and name in each.summary
    }
    if about and about.keys() == undone:
        merged_into["profile.environment"] = min(about.values())
    reported = dict(troubles)
    for extra, reporter in merged_into.items():
        if extra in troubles and reporter in troubles:
            lines = (*reported[reporter].detail, *troubles[extra].detail)
            reported[reporter] = reported[reporter]._replace(detail=lines)
            reported[extra] = Finding(extra, "skip", f"reported by {reporter}")
    return [reported.get(each.id, each) for each in findings]


def _with_pip_of(python: Interpreter, finding: Finding) -> Finding:
    """Make the finding's fix use the pip of ``python``: plain `pip` belongs to another Python."""
    fix = _PIP.sub(f"{shlex.quote(python.path)} -m pip", finding.fix or "")
    return finding._replace(fix=fix or None)


def _wanted_ids(request: ExaminationRequest) -> frozenset[str] | None:
    """The ids of the requested checks; None means all."""
    if not request.ids:
        return None
    ids = selected(request.ids, known_checks())
    groups = {each.split(".")[0] for each in ids}
    if "source" in groups and not request.scripts:
        hint = "gpuconf doctor source --script train.py"
        raise UsageError("the source.* checks need a script to read", hint=hint)
    if "live" in groups and not request.probe:
        hint = "gpuconf doctor live --probe"
        raise UsageError("the live.* checks need --probe", hint=hint)
    return ids


def _chosen(found: Iterable[Finding], ids: frozenset[str] | None) -> Iterator[Finding]:
    """The findings with requested ids, and all crashes."""
    return (each for each in found if ids is None or each.id in ids or each.status == "crash")


def _scripts(request: ExaminationRequest) -> tuple[str, ...]:
    if not request.scripts:
        return ()
    from gpuconf.commands.doctor.source import scripts_in

    return scripts_in(request.scripts)


def _read_scripts(scripts: Sequence[str], progress: Callable[[str], None]) -> list[Finding]:
    """The findings in all scripts; for a large folder, reports how many have been read so far."""
    if not scripts:
        return []
    from gpuconf.commands.doctor.source import in_one

    found: list[Finding] = []
    for number, script in enumerate(scripts):
        if number and number % _SCRIPTS_A_LINE == 0:
            progress(f"{number} of {len(scripts)} scripts read")
        found += _read_script(script)
    return in_one(found, len(scripts))


def _read_script(script: str) -> tuple[Finding, ...]:
    from gpuconf.commands.doctor.source import check_script

    try:
        return check_script(script)
    except UsageError:
        raise
    except Exception as error:
        return (crash("source", error),)


def _refusal(findings: Iterable[Finding], facts: Facts) -> str | None:
    """The failed check that explains why the profile gives no program a GPU.

    The probe's child would fail for the same reason.
    """
    if switched_off(facts.environ) is not None:
        return None  # then no profile affects the child
    statuses = {finding.id: finding.status for finding in findings}
    if statuses.get("profile.choice") == "fail":
        return "profile.choice"
    return "profile.plan" if statuses.get("profile.plan") in ("fail", "warn") else None


def _probe(
    request: ExaminationRequest,
    packages: Packages,
    ids: frozenset[str] | None,
    refusal: str | None,
    progress: Callable[[str], None],
) -> LiveReport:
    from gpuconf.commands.doctor.live import LiveReport, measure

    if refusal is not None:
        progress(f"no probe: {refusal} must pass first")
        return LiveReport((Finding("live.start", "skip", f"not tried: {refusal} must pass first"),))
    try:
        return measure(
            request.profile,
            frameworks=frameworks_to_probe(packages, ids),
            timeout_s=request.timeout_s,
            progress=progress,
        )
    except GpuconfError as error:
        fix = error.hint or "gpuconf doctor --probe"
        return LiveReport((Finding("live.start", "fail", error.message, fix=fix),))
    except Exception as error:
        return LiveReport((crash("live", error),))


def frameworks_to_probe(packages: Packages, ids: frozenset[str] | None) -> list[ProbedFramework]:
    """The frameworks with CUDA whose checks were requested; TensorFlow if there is none."""
    from gpuconf.commands.doctor.live import FRAMEWORKS, JAX, TENSORFLOW, TORCH

    build = packages.tensorflow
    has_cuda = {
        TENSORFLOW: tensorflow_name(packages) is not None
        and (build is None or build.is_cuda or build.is_rocm),
        TORCH: packages.torch is not None and packages.torch.cuda_version is not None,
        JAX: bool(cuda_plugins(packages)),
    }
    there = [each for each in FRAMEWORKS if has_cuda[each]] or [TENSORFLOW]
    asked = [
        each
        for each in FRAMEWORKS
        if ids is None or any(f"{each.prefix}.{step}" in ids for step in each.steps)
    ]
    return [each for each in asked if each in there] or asked[:1]


def _versions(facts: Facts) -> Iterator[tuple[str, str]]:
    inventory, system = facts.inventory, facts.system
    yield "gpuconf", __version__
    if (python := facts.packages.interpreter) is not None:
        yield "Python", ".".join(map(str, python.version))
        yield "Python's path", python.path
    yield "system", f"{platform.system()} {platform.release()}"
    if system.container or system.is_wsl:
        yield "inside", " ".join(filter(None, [system.container, "WSL" if system.is_wsl else None]))
    if inventory.driver_version:
        yield "driver", inventory.driver_version
    if inventory.cuda_version:
        yield "CUDA of the driver", "{}.{}".format(*inventory.cuda_version)
    for name in _SHOWN_PACKAGES:
        version = facts.packages.version(name)
        if version is not None:
            yield name, version
    build = facts.packages.tensorflow
    if build is not None and build.is_cuda:
        yield "TensorFlow's CUDA", f"{build.cuda_version}, cuDNN {build.cudnn_version}"
    if facts.packages.torch is not None and facts.packages.torch.cuda_version:
        yield "torch's CUDA", facts.packages.torch.cuda_version


def _steering(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in sorted(environ.items()):
        is_steering = name.startswith(_STEERING) or name in _STEERING_NAMES
        is_others = name == _OURS or name.startswith(_TERRAFORMS) or _SECRET.search(name)
        if is_steering and not is_others:
            yield name, value


def _profile(facts: Facts) -> ProfileInForce | None:
    profile = facts.profile
    if profile.name is None:
        return None
    return ProfileInForce(profile.name, profile.source, profile.because)


def known_checks() -> dict[str, str]:
    """All checks: id -> subject; the checks for scripts and the probe come last."""
    from gpuconf.commands.doctor.live import LIVE_CHECKS
    from gpuconf.commands.doctor.source import SOURCE_CHECKS

    return {**{check.id: check.about for check in CHECKS}, **SOURCE_CHECKS, **LIVE_CHECKS}


def selected(ids: Sequence[str], known: Iterable[str]) -> frozenset[str]:
    """The ids among ``known`` that ``ids`` match; all of them if ``ids`` is empty.

    Dashes and underscores are equivalent.  Raises UsageError for a name that matches none.
    """
    known = list(known)
    if not ids:
        return frozenset(known)
    found: set[str] = set()
    for wanted in ids:
        plain = wanted.replace("-", "_")
        named = {each for each in known if f"{each}.".replace("-", "_").startswith(f"{plain}.")}
        if not named:
            raise UsageError(f"there is no check {wanted!r}", hint=_hint(wanted, known))
        found |= named
    return frozenset(found)


def _hint(wanted: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    if wanted.endswith((".py", ".ipynb")) or os.path.isfile(wanted):
        return f"gpuconf doctor --script {shlex.quote(wanted)}"
    groups = sorted({each.split(".")[0] for each in known})
    ends = {each.partition(".")[2]: each for each in known}
    begun = [each for each in (*groups, *known) if each.startswith(wanted.replace("-", "_"))]
    close = begun or get_close_matches(wanted, [*known, *groups], n=1)
    close = close or [ends[end] for end in get_close_matches(wanted, ends, n=1)]
    meant = f"did you mean `gpuconf doctor {close[0]}`? " if close else ""
    return f"{meant}`gpuconf doctor --list-checks` shows them all"
