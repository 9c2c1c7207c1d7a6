"""Ray on a simulated cluster: whether every share holds.  `make clusters`.

Several raylets run on this machine, each with its own simulated GPU of a different size.  Actors
fill all GPUs.  Each imports TensorFlow, reports its limit and allocates nine tenths of it, which
NVML then shows.  Exit code 1 if a share did not hold.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.ray_shares import CONTEXT_MIB, Found, Layout, checks_of
from gpuconf.basics.units import MIB, sized
from gpuconf.simcard import Card, simulated_card

_PROFILE = f"extends: shared-desktop\nmemory: {{context: {CONTEXT_MIB}MiB}}\n"
_FILLED = 0.9  # of its limit, by each actor
HOOK = {"worker_process_setup_hook": "gpuconf.ray.setup"}
# TensorFlow imports these if they are installed: more than half of a worker's memory.
_OPTIONAL = ("IPython", "cv2", "jax", "keras", "matplotlib", "pandas", "scipy", "sklearn")
_SMALL = {"object_store_memory": 80 * MIB}
_PATIENCE_S = 1800


class Model:
    """An actor that creates TensorFlow's devices, as a user's would."""

    def __init__(self) -> None:
        for name in _OPTIONAL:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # as if not installed
        import tensorflow as tf

        self.tf = tf
        self.held: Any = None
        tf.config.list_logical_devices("GPU")

    def answer(self) -> dict[str, Any]:
        """Its node, and the limit of each GPU that it sees."""
        import ray

        config = self.tf.config
        limits = [
            device.memory_limit
            for gpu in config.list_physical_devices("GPU")
            for device in config.get_logical_device_configuration(gpu) or ()
        ]
        node = ray.get_runtime_context().get_node_id()
        return {"pid": os.getpid(), "node": node, "limits_mib": limits}

    def fill(self, size_mib: int) -> bool:
        """Allocate on the GPU and keep the memory; return whether there was enough."""
        shape = [size_mib, 1024, 256]
        try:
            self.held = self.tf.raw_ops.Empty(shape=shape, dtype=self.tf.float32, init=False)
        except self.tf.errors.ResourceExhaustedError:
            return False
        return "GPU:0" in self.held.device

    def card(self) -> dict[str, Any]:
        """The GPU as NVML shows it to this process."""
        import pynvml

        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = pynvml.nvmlDeviceGetMemoryInfo(gpu)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
        held = {each.pid: each.usedGpuMemory for each in processes}
        return {"used_bytes": memory.used, "total_bytes": memory.total, "held_bytes": held}


@contextmanager
def cluster_of(layout: Layout) -> Iterator[str]:
    """Run a node for each simulated GPU, and yield Ray's address."""
    with ExitStack() as stack:
        cards = [stack.enter_context(simulated_card(layout.spec(n))) for n in range(layout.nodes)]
        try:
            cluster = _start(cards)
        except Exception as error:  # Ray waits 30 s for each raylet, without an option
            print(f"Ray did not start, trying again: {error}", file=sys.stderr)
            cluster = _start(cards)
        stack.callback(cluster.shutdown)
        yield cluster.address


def _start(cards: Sequence[Card]) -> Any:
    """A head without a GPU, and a node for each GPU; its workers inherit its environment."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        # A worker that imports TensorFlow in parallel with 63 others may need more than Ray's 60 s.
        patient = {"worker_register_timeout_seconds": _PATIENCE_S}
        cluster.add_node(num_cpus=0, include_dashboard=False, _system_config=patient, **_SMALL)
        for number, card in enumerate(cards):
            environ = card.environment(os.environ)
            changed = {name: text for name, text in environ.items() if os.environ.get(name) != text}
            mark = {f"node{number}": 1}
            cluster.add_node(num_cpus=1, num_gpus=1, resources=mark, env_vars=changed, **_SMALL)
    except BaseException:
        cluster.shutdown()
        raise
    return cluster


@contextmanager
def job(address: str) -> Iterator[Any]:
    """Connect as a driver with the hook; yield the module ray."""
    import ray

    quiet = {"log_to_driver": False, "logging_level": "error"}
    ray.init(address=address, runtime_env=HOOK, **quiet)
    try:
        yield ray
    finally:
        ray.shutdown()


def fill_cluster(ray: Any, layout: Layout) -> Found:
    """Start all actors at once; each reports, then all allocate, then NVML is queried."""
    marks = {node["NodeID"]: set(node["Resources"]) for node in ray.nodes()}
    numbers = {
        key: n for key, names in marks.items() for n in range(layout.nodes) if f"node{n}" in names
    }
    remote = ray.remote(Model).options(num_gpus=layout.share, num_cpus=0)
    models = [remote.remote() for _ in range(layout.actors)]
    answers = ray.get([each.answer.remote() for each in models], timeout=_PATIENCE_S)
    sizes = [int(_FILLED * sum(each["limits_mib"])) for each in answers]
    filling = [each.fill.remote(size) for each, size in zip(models, sizes, strict=True)]
    filled = ray.get(filling, timeout=_PATIENCE_S)
    found, cards = [], {}
    for model, answer, is_filled in zip(models, answers, filled, strict=True):
        node = numbers[answer["node"]]
        found.append({**answer, "node": node, "is_filled": is_filled})
        if node not in cards:
            cards[node] = ray.get(model.card.remote(), timeout=_PATIENCE_S)
    return Found(found, cards)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=8, help="default: 8")
    parser.add_argument("--actors", type=int, default=64, help="a multiple of nodes; default: 64")
    options = parser.parse_args(arguments)
    if options.nodes < 1 or options.actors < options.nodes or options.actors % options.nodes:
        parser.error(f"--actors {options.actors} is no multiple of --nodes {options.nodes}")
    return options


def run(layout: Layout) -> bool:
    """Fill a cluster, check, print; return whether every share held."""
    with cluster_of(layout) as address:
        started = time.perf_counter()
        with job(address) as ray:
            found = fill_cluster(ray, layout)
        passed_s = time.perf_counter() - started
        checks = checks_of(layout, found)
        totals = [sized(layout.spec(node).total_bytes) for node in (0, layout.nodes - 1)]
        print(f"{layout.nodes} nodes with a GPU each, {totals[0]} to {totals[-1]};", end=" ")
        print(f"{layout.actors} actors of {layout.share:g}, {passed_s:.0f} s for all", end="\n\n")
        print("| check | expected | found |", "|---|---|---|", sep="\n")
        print(*(f"| {what} | {number} | {seen} |" for what, number, seen in checks), sep="\n")
        fullest = max(each["used_bytes"] / each["total_bytes"] for each in found.cards.values())
        print("", f"the fullest GPU: {fullest:.1%} in use", sep="\n", flush=True)
    return all(each.expected == each.found for each in checks)


def main() -> int:
    """Run it with its own profile; return 1 if a share did not hold."""
    options = parse()
    print(machine("ray", "tensorflow"), flush=True)
    # In /tmp, because the paths of Ray's sockets may have at most 107 bytes.
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        profile = Path(folder, "profile.yaml")
        profile.write_text(_PROFILE, encoding="utf-8")
        # A separate folder for Ray: otherwise the address of this cluster would remain, and every
        # later ray.init() would look for it.
        ours = {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": folder, "TF_CPP_MIN_LOG_LEVEL": "3"}
        os.environ.update(ours, GPUCONF_PROFILE=str(profile))
        is_good = run(Layout(options.nodes, options.actors))
    print("", f"load {os.getloadavg()[0]:.1f} at the end", sep="\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
