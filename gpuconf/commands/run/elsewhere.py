"""Commands that start a program as another user, in a container, or on another machine."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable, Mapping, Sequence

from gpuconf.commands.run.wrappers import Options, read_options

_Reason = tuple[str, str]  # why the plan is lost, and what to do instead

_OTHER_USER = "it gives the command its own environment, and closes the lease's file"
_CONTAINER = "a container has its own environment and files"
_MACHINE = "the command runs on another machine, whose cards this plan does not know"
_SHARED = "--gpus all --pid=host -v /run/gpuconf:/run/gpuconf"
_PLACEHOLDER = ["python", "train.py"]


def goes_elsewhere(words: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why the plan cannot follow ``words``, and a hint; None if no obstacle is visible."""
    rule = _RULES.get(os.path.basename(words[0]))
    return None if rule is None else rule(list(words), environ)


def _sudo(words: list[str], _environ: Mapping[str, str]) -> _Reason:
    options = read_options(words[1:], "CDghpRrtTUua", ("user", "group", "host", "chdir", "prompt"))
    count = len(words) - len(options.rest)
    while count < len(words) and "=" in words[count]:
        count += 1
    hint = _line(words[:count], words[count:])
    return _OTHER_USER + "; --preserve-env does not keep that open", f"start gpuconf there: {hint}"


def _doas(words: list[str], _environ: Mapping[str, str]) -> _Reason:
    options = read_options(words[1:], "Cau", ("user",))
    front = words[: len(words) - len(options.rest)]
    return _OTHER_USER, f"start gpuconf there: {_line(front, options.rest)}"


def _su(words: list[str], _environ: Mapping[str, str]) -> _Reason:
    user = next((word for word in words[1:] if not word.startswith("-")), "USER")
    hint = f"{words[0]} {user} -c 'gpuconf run -- {shlex.join(_PLACEHOLDER)}'"
    return _OTHER_USER, f"start gpuconf there: {hint}"


def _docker(words: list[str], _environ: Mapping[str, str]) -> _Reason | None:
    name = os.path.basename(words[0])
    rest = _operands(words[1:])
    if rest[:1] in (["compose"], ["container"]):
        rest = _operands(rest[1:])
    if rest[:1] and rest[0] in ("run", "exec", "create", "start", "up"):
        front = f"{name} run {_SHARED} IMAGE"
        return _CONTAINER, f"start gpuconf in it: {_line([], _PLACEHOLDER, front)}"
    return None


def _operands(words: Sequence[str]) -> list[str]:
    long = ("context", "host", "config", "log-level", "file", "project-name", "url", "connection")
    return read_options(words, "cHlfp", long).rest


def _apptainer(words: list[str], _environ: Mapping[str, str]) -> _Reason | None:
    name = os.path.basename(words[0])
    rest = read_options(words[1:], "c", ("config",)).rest
    if rest[:1] and rest[0] in ("run", "exec", "shell", "instance"):
        front = f"{name} exec --nv --bind /run/gpuconf IMAGE"
        return _CONTAINER, f"start gpuconf in it: {_line([], _PLACEHOLDER, front)}"
    return None


def _kubectl(words: list[str], _environ: Mapping[str, str]) -> _Reason | None:
    if not {"exec", "run", "debug", "attach"} & set(words[1:4]):
        return None
    if "--" in words:
        at = words.index("--") + 1
        return _CONTAINER, f"start gpuconf in it: {_line(words[:at], words[at:])}"
    front = f"{words[0]} exec POD --"
    return _CONTAINER, f"start gpuconf in it: {_line([], _PLACEHOLDER, front)}"


def _ssh(words: list[str], _environ: Mapping[str, str]) -> _Reason:
    options = read_options(words[1:], "BbcDEeFIiJLlmOopQRSWw")
    front = words[: len(words) - len(options.rest) + 1]
    hint = _line(front, options.rest[1:] or _PLACEHOLDER)
    return _MACHINE, f"start gpuconf there: {hint}"


def _sbatch(words: list[str], _environ: Mapping[str, str]) -> _Reason:
    hint = f'{words[0]} --wrap "gpuconf run -- {shlex.join(_PLACEHOLDER)}"'
    why = "sbatch ends at once, and Slurm runs the job elsewhere"
    return why, f"put gpuconf run into the job: {hint}"


def _srun(words: list[str], environ: Mapping[str, str]) -> _Reason | None:
    """Refuse several hosts or other hosts; otherwise the program may stay on this machine."""
    options = read_options(words[1:], _SRUN_VALUED, _SRUN_VALUED_LONG)
    nodes = _value(options, "N", "nodes").split("-")[0]
    hosts = _value(options, "w", "nodelist")
    if (nodes.isdigit() and int(nodes) > 1) or _others(hosts.split(","), environ):
        front = words[: len(words) - len(options.rest)]
        return _MACHINE, f"start gpuconf on each: {_line(front, options.rest)}"
    return None


_SRUN_VALUED = "ABbCcDdeGiJLMmNnopqrSTtWwx"
_SRUN_VALUED_LONG = (
    *("nodes", "nodelist", "ntasks", "gres", "gpus", "partition", "time", "mem", "account"),
    *("cpus-per-task", "job-name", "output", "error", "chdir", "export", "gpus-per-task"),
)


def _mpirun(words: list[str], environ: Mapping[str, str]) -> _Reason | None:
    """Refuse other hosts; mpirun's options start with one or two dashes and have other values."""
    for option, value in itertools.pairwise(words[1:]):
        name = option.lstrip("-")
        hosts: list[str] = []
        if not option.startswith("-"):
            continue
        if name in ("host", "hosts", "H"):
            hosts = value.split(",")
        elif name in ("hostfile", "machinefile", "default-hostfile", "f"):
            hosts = _hosts_in(value)
        if _others(hosts, environ):
            why = f"{option} {value} names another machine, whose cards this plan does not know"
            hint = _line([words[0], option, value], _PLACEHOLDER)
            return why, f"start gpuconf on each: {hint}"
    return None


def _hosts_in(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8") as lines:
            return [line.split()[0] for line in lines if line.split("#")[0].strip()]
    except (OSError, UnicodeDecodeError):
        return []


def _others(hosts: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether one of ``hosts`` (``name`` or ``name:slots``) is not this machine."""
    import socket

    here = socket.gethostname()
    names = {"localhost", "127.0.0.1", "::1", here, here.split(".")[0]}
    names.add(environ.get("SLURMD_NODENAME", here))

    def is_here(host: str) -> bool:
        name = host.split(":", maxsplit=1)[0]
        # A host that knows only its short name may be listed with its domain.
        is_longer = "." not in here and name.startswith(f"{here}.")
        return host in names or name in names or is_longer

    return any(host and not is_here(host) for host in hosts)


def _systemd_run(words: list[str], _environ: Mapping[str, str]) -> _Reason | None:
    if "--scope" in words:
        return None
    why = "the service manager starts the command, in its own environment"
    return why, f"add --scope: {_line(['systemd-run', '--scope', '--user'], _PLACEHOLDER)}"


def _tmux(words: list[str], _environ: Mapping[str, str]) -> _Reason:
    why = "tmux has its server start the command, in the server's environment"
    return why, f"start gpuconf in it: {words[0]} new-session 'gpuconf run -- python train.py'"


def _pipx(words: list[str], _environ: Mapping[str, str]) -> _Reason | None:
    if words[1:2] != ["run"]:
        return None
    rest = read_options(words[2:], "", ("spec", "python", "pip-args", "index-url")).rest
    why = "pipx run takes PYTHONPATH away, which carries the plan"
    return why, f"install it, and start it by its name: gpuconf run -- {shlex.join(rest)}"


def _value(options: Options, *names: str) -> str:
    return next((value for name, value in reversed(options.given) if name in names), "")


def _line(front: Sequence[str], words: Sequence[str], text: str = "") -> str:
    """Return ``front``, then ``gpuconf run``, then the command."""
    start = text or shlex.join(front)
    return f"{start} gpuconf run -- {shlex.join(words or _PLACEHOLDER)}".strip()


_RULES: dict[str, Callable[[list[str], Mapping[str, str]], _Reason | None]] = {
    "sudo": _sudo,
    "doas": _doas,
    "pkexec": _doas,
    **dict.fromkeys(("su", "runuser"), _su),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), _docker),
    **dict.fromkeys(("apptainer", "singularity"), _apptainer),
    **dict.fromkeys(("kubectl", "oc"), _kubectl),
    **dict.fromkeys(("ssh", "mosh"), _ssh),
    "sbatch": _sbatch,
    "srun": _srun,
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "horovodrun"), _mpirun),
    "systemd-run": _systemd_run,
    "tmux": _tmux,
    "pipx": _pipx,
}
