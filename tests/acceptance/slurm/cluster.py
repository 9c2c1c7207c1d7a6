"""A Slurm of one node, in a folder of its own: munged, slurmctld and slurmd, ended in the end."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TASK_PROLOG = ROOT / "docs" / "examples" / "slurm" / "taskprolog.sh"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scontrol")
_PATIENCE_S = 60
_CONF = """\
ClusterName=gpuconf
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={task_prolog}
ReturnToService=2
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,{kind}
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 Boards=1 SocketsPerBoard=1 \
CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:1,{kind}:{count} State=UNKNOWN
PartitionName=p Nodes=node1 Default=YES MaxTime=60 State=UP OverSubscribe=NO
"""
_GRES = """\
AutoDetect=off
NodeName=node1 Name=gpu Count=1 File={device}
NodeName=node1 Name={kind} Count={count} File={device}
"""


def missing() -> str | None:
    """Why no Slurm can be started here; None where it can."""
    if os.geteuid() != 0:
        return "slurmd runs jobs of other users, so this must be root"
    gone = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(gone)} cannot be found; apt install slurm-wlm munge" if gone else None


@contextmanager
def cluster(folder: Path, kind: str, count: int) -> Iterator[dict[str, str]]:
    """Start one whose node has a GPU of ``count`` shards or of ``count`` percent of MPS.

    Yields the environment in which srun and its like reach it.
    """
    names = {"folder": folder, "host": socket.gethostname().partition(".")[0], "kind": kind}
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(mode=0o700)
    device = folder / "nvidia0"  # Slurm wants a device; this one opens no driver
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(195, 0))
    conf = folder / "slurm.conf"
    conf.write_text(_CONF.format(**names, count=count, task_prolog=TASK_PROLOG))
    (folder / "gres.conf").write_text(_GRES.format(kind=kind, count=count, device=device))
    environ = {**os.environ, "SLURM_CONF": str(conf)}
    with ExitStack() as stack:
        stack.enter_context(_daemon(_munged(folder), folder, environ))
        _wait_for((folder / "munge.socket").exists, folder)
        for command in (["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            stack.enter_context(_daemon(command, folder, environ))
        _wait_for(lambda: "idle" in asked(["sinfo", "-h", "-o", "%T"], environ), folder)
        yield environ


def asked(command: list[str], environ: Mapping[str, str]) -> str:
    """What a command of Slurm's prints."""
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False
    ).stdout.strip()


def _munged(folder: Path) -> list[str]:
    key = folder / "munge" / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    files = {"socket": folder / "munge.socket", "key-file": key}
    files |= {f"{name}-file": folder / "munge" / name for name in ("pid", "log", "seed")}
    options = [f"--{name}={path}" for name, path in files.items()]
    return ["munged", "--foreground", "--force", *options]


@contextmanager
def _daemon(command: list[str], folder: Path, environ: Mapping[str, str]) -> Iterator[None]:
    with (
        open(folder / f"{command[0]}.out", "wb") as log,
        subprocess.Popen(command, env=environ, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(is_ready: Callable[[], bool], folder: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_ready():
        if time.monotonic() > end:
            logs = (f"{each.name}:\n{each.read_text()[-1500:]}" for each in folder.glob("*.out"))
            raise SystemExit("Slurm did not start\n" + "\n".join(logs))
        time.sleep(0.2)
