"""Host memory, for data pipelines, workers and pinned buffers."""

from __future__ import annotations

from gpuconf.basics.units import GIB, MIB, sized
from gpuconf.commands.doctor.checks.check import NO_GPU, Check, ok, skip, warn
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding

# A CUDA process with cuDNN and cuBLAS loaded needs about 2 GiB of host memory before any data.
_LEAST_HOST_BYTES = 2 * GIB
# Docker's default /dev/shm is 64 MiB, too little for workers that pass batches; NCCL's
# documentation ("Troubleshooting") recommends 1 GiB.
_LEAST_SHM_BYTES = GIB
_LEAST_SHM_FREE_BYTES = 64 * MIB
_LARGER_SHM = {
    None: "sudo mount -o remount,size=2G /dev/shm",
    "docker": "docker run --shm-size=2g IMAGE",
    "podman": "podman run --shm-size=2g IMAGE",
    "kubernetes": "kubectl explain pod.spec.volumes.emptyDir   # medium: Memory, on /dev/shm",
}


def _memory(facts: Facts) -> Finding:
    available = facts.system.available_bytes
    if not facts.expects_gpu:
        return skip(NO_GPU)
    if available is None:
        return skip("the size of the host's memory is unknown")
    if available < _LEAST_HOST_BYTES:
        return warn(
            f"only {sized(available)} of host memory are available: "
            "the kernel may kill a training run",
            "loading CUDA's libraries alone takes about 2 GiB",
            fix="ps -eo pid,user,rss,comm --sort=-rss | head",
        )
    return ok(f"{sized(available)} of host memory are available")


def _shared_memory(facts: Facts) -> Finding:
    system = facts.system
    if not facts.expects_gpu:
        return skip(NO_GPU)
    if system.shm_bytes is None:
        return skip("there is no /dev/shm")
    if system.shm_free_bytes is not None and system.shm_free_bytes < _LEAST_SHM_FREE_BYTES:
        return warn(
            f"/dev/shm is full: {sized(system.shm_free_bytes)} of {sized(system.shm_bytes)} free",
            "workers that pass batches through it crash with a bus error",
            fix="ls -lhS /dev/shm | head",
        )
    if system.shm_bytes < _LEAST_SHM_BYTES:
        return warn(
            f"/dev/shm has {sized(system.shm_bytes)}, too little for data workers and NCCL",
            "they crash with a bus error; Docker's default is 64 MiB",
            fix=_LARGER_SHM.get(system.container, _LARGER_SHM["docker"]),
        )
    return ok(f"/dev/shm has {sized(system.shm_bytes)}")


CHECKS = (
    Check("host.memory", "the host has memory for a training run", _memory),
    Check("host.shared_memory", "/dev/shm has room for workers and NCCL", _shared_memory),
)
