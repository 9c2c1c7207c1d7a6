"""Run the doctor on each node of a Ray cluster, in a task that uses none of its resources."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from gpuconf.errors import GpuconfError, MissingDependencyError
from gpuconf.nodes.document import NodeReport, NodesReport, Progress, node_report
from gpuconf.ray_address import silence_of

_TURN_S = 1.0


def ask_nodes(
    address: str, words: Sequence[str], timeout_s: float, progress: Progress
) -> NodesReport:
    """Run ``doctor --json WORDS`` on all nodes at once; a node without an answer still gets a row.

    Raises MissingDependencyError without Ray, and GpuconfError if no cluster answers.
    """
    # Like ray.init, which resolves "auto" from that variable.
    where = os.environ.get("RAY_ADDRESS") or address if address == "auto" else address
    silence = silence_of(where)
    if silence is not None:
        raise _no_cluster(where, silence)
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError(
            f"Ray cannot be imported here: {error}", hint=f"{sys.executable} -m pip install ray"
        ) from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(where, str(error)) from None
    try:
        return _ask_all(ray, words, timeout_s, progress)
    finally:
        ray.shutdown()


def _no_cluster(address: str, why: str) -> GpuconfError:
    return GpuconfError(
        f"no Ray cluster answers at {address}: {why}",
        hint="ray start --head, or gpuconf ray doctor --address HOST:6379",
    )


def _ask_all(ray: Any, words: Sequence[str], timeout_s: float, progress: Progress) -> NodesReport:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(doctor_here)
    nodes = sorted(ray.nodes(), key=lambda node: (not node["Alive"], _name_of(node)))
    names = _names(nodes)
    reports: dict[str, NodeReport] = {}
    asked: dict[Any, str] = {}
    for node in nodes:
        if not node["Alive"]:
            reports[node["NodeID"]] = NodeReport(names[node["NodeID"]], "Ray says it is dead")
            continue
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[task.options(scheduling_strategy=strategy).remote(list(words), timeout_s)] = node[
            "NodeID"
        ]
    end = time.monotonic() + timeout_s
    while asked and time.monotonic() < end:
        done, _ = ray.wait(list(asked), timeout=min(_TURN_S, max(0, end - time.monotonic())))
        for each in done:
            key = asked.pop(each)
            reports[key] = _answer(ray, each, names[key])
            progress(f"{len(reports)} of {len(nodes)}: {names[key]} has answered")
    silent = f"no answer within {timeout_s:g} s"
    reports |= {key: NodeReport(names[key], silent) for key in asked.values()}
    return NodesReport(tuple(reports[node["NodeID"]] for node in nodes))


def _name_of(node: Mapping[str, Any]) -> str:
    return str(node.get("NodeManagerHostname") or node.get("NodeManagerAddress"))


def _names(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Map each node's id to its host, with part of the id if several have that name."""
    hosts = list(map(_name_of, nodes))
    return {
        node["NodeID"]: host if hosts.count(host) == 1 else f"{host} {node['NodeID'][:8]}"
        for node, host in zip(nodes, hosts, strict=True)
    }


def _answer(ray: Any, reference: Any, name: str) -> NodeReport:
    try:
        return node_report(name, *ray.get(reference))
    except ray.exceptions.RayError as error:  # gpuconf is missing, or the node has died
        lines = [line for line in str(error).splitlines() if line.strip()]
        return NodeReport(name, lines[-1].strip() if lines else type(error).__name__)


def doctor_here(words: list[str], timeout_s: float) -> tuple[str, str, int]:
    """Run the doctor on this node, in the Python of its workers; return its output.

    It is killed after ``timeout_s``, when nobody waits for it any more.
    """
    command = [sys.executable, "-m", "gpuconf", "doctor", "--json", *words]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    return done.stdout, done.stderr, done.returncode
