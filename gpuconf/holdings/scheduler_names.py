"""The names that Ray and Slurm use for the tasks on this machine: actors, jobs, users."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Any

from gpuconf.hardware.inventory import RAY, SLURM
from gpuconf.hardware.schedulers import Task
from gpuconf.holdings.document import SchedulerTask
from gpuconf.ray_address import silence_of

Names = dict[int, SchedulerTask]

_PATIENCE_S = 10
_MOST = 10_000  # limit of the state API; its default is 100


class NotAskedError(Exception):
    """A scheduler that cannot be queried, and why."""


def ray_names(tasks: Mapping[int, Task]) -> Names:
    """Ask Ray's state API, which its dashboard serves and which needs ``ray[default]``.

    Raises NotAskedError.
    """
    address = os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS", "")
    silence = silence_of(address)
    if silence is not None:
        raise NotAskedError(f"Ray cannot be asked at {address}: {silence}")
    try:
        import ray
        from ray.util import state
    except ImportError as error:
        raise NotAskedError(f"Ray cannot be asked: {error}") from None
    try:
        here = ray.util.get_node_ip_address()
        nodes = {
            node.node_id
            for node in state.list_nodes(limit=_MOST, timeout=_PATIENCE_S)
            if node.node_ip == here
        }
        actors = [
            actor
            for actor in state.list_actors(detail=True, limit=_MOST, timeout=_PATIENCE_S)
            if actor.node_id in nodes
        ]
        running = state.list_tasks(
            filters=[("state", "=", "RUNNING")], detail=True, limit=_MOST, timeout=_PATIENCE_S
        )
    except Exception as error:  # the state API raises many kinds of errors
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise NotAskedError(f"Ray cannot be asked: {reason[0]}") from None
    jobs = {each.worker_pid: each.job_id for each in running if each.node_id in nodes}
    of_actors = {actor.pid: actor for actor in actors if actor.state == "ALIVE"}
    return {pid: _ray_task(task, of_actors.get(pid), jobs.get(pid)) for pid, task in tasks.items()}


def _ray_task(task: Task, actor: Any, job: str | None) -> SchedulerTask:
    if actor is None:
        return SchedulerTask(RAY, task.name, job=job)
    return SchedulerTask(RAY, task.name, actor.name or actor.actor_id, actor.job_id)


def slurm_names(tasks: Mapping[int, Task]) -> Names:
    """Ask ``squeue``, which queries the controller.  Raises NotAskedError."""
    numbers = {pid: task.name.partition(".")[0] for pid, task in tasks.items()}
    wanted = ",".join(sorted(set(numbers.values())))
    # The name comes last: it may contain any character.
    command = ["squeue", "--noheader", f"--jobs={wanted}", "--format=%A|%i|%u|%j"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotAskedError(f"Slurm cannot be asked: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"squeue exits with {done.returncode}"
        raise NotAskedError(f"Slurm cannot be asked: {said}")
    rows = [line.strip().split("|", 3) for line in done.stdout.splitlines()]
    jobs = {row[0]: row for row in rows if len(row) == 4}
    return {
        pid: SchedulerTask(
            SLURM,
            # Write an array element as users know it, 12_3, followed by its step.
            task.name.replace(number, jobs[number][1], 1),
            job=jobs[number][3],
            user=jobs[number][2],
        )
        for pid, task in tasks.items()
        if (number := numbers[pid]) in jobs
    }
