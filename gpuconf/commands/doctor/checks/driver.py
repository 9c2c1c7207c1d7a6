"""The driver: whether it is installed, consistent, accessible and new enough."""

from __future__ import annotations

import re

from gpuconf.commands.doctor.checks.check import NO_GPU, Check, fail, ok, skip, warn
from gpuconf.commands.doctor.checks.driver_cause import EXPLAINED_BY, cause_of
from gpuconf.commands.doctor.checks.packages import cuda_plugins
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding

# NVIDIA's guide for all other distributions, each with its own repository and package name.
_GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
_INSTALL = {
    "ubuntu": "sudo ubuntu-drivers install && sudo reboot",
    "debian": "sudo apt install nvidia-driver && sudo reboot   # from contrib and non-free",
    "fedora": "sudo dnf install akmod-nvidia && sudo reboot   # from RPM Fusion",
    "arch": "sudo pacman -S nvidia && sudo reboot",
}
# CUDA installation guide for Linux, "Device Node Verification".
_MAKE_UVM = (
    "sudo modprobe nvidia_uvm && sudo mknod -m 666 /dev/nvidia-uvm c "
    "$(awk '/nvidia-uvm$/ {print $1}' /proc/devices) 0"
)
_WITH_GPU = {
    "docker": "docker run --gpus all IMAGE",
    "podman": "podman run --device nvidia.com/gpu=all IMAGE",
    "kubernetes": "kubectl explain pod.spec.containers.resources.limits   # and add nvidia.com/gpu",
}
# Without `utility`, NVIDIA's container toolkit leaves out libnvidia-ml.so.1; an image may set that.
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
_WITH_NVML = {
    "docker": f"docker run --gpus all -e {_CAPABILITIES} IMAGE",
    "podman": f"podman run --device nvidia.com/gpu=all -e {_CAPABILITIES} IMAGE",
    "kubernetes": f"kubectl explain pod.spec.containers.env   # and add {_CAPABILITIES}",
}
_NOUVEAU = "the kernel has loaded nouveau, which must give way to NVIDIA's own driver"
# NVIDIA vGPU's user guide, "Virtual GPU types": GRID A100D-20C, NVIDIA A40-48Q, A100-2-10C.
_VGPU = re.compile(r"-\d+[ABCQ]$")
# NVIDIA, "CUDA compatibility", table 1: the minimum driver for each major version of CUDA.
_OLDEST_DRIVER = {11: "450", 12: "525", 13: "580"}


def _present(facts: Facts) -> Finding:
    found = _of_driver(facts)
    return found._replace(detail=(*found.detail, f"this machine: {_machine(facts)}"))


def _machine(facts: Facts) -> str:
    """What decides where limits and figures come from."""
    system, gpus = facts.system, facts.inventory.gpus
    other = system.other_gpu or ""
    names = [gpu.name or "" for gpu in gpus]
    kinds = {
        "macOS": "Mac" in other,
        "WSL2": system.is_wsl,
        "Windows": system.is_windows,
        "Linux": not system.spills and "Mac" not in other,
        f"a {system.container} container": system.container is not None,
        "GPU and host share memory": "Jetson" in other or any(gpu.is_unified for gpu in gpus),
        "a vGPU": any(map(_VGPU.search, names)),
    }
    return ", ".join(kind for kind, is_so in kinds.items() if is_so)


def _of_driver(facts: Facts) -> Finding:
    inventory = facts.inventory
    if inventory.problem is not None:
        return _does_not_answer(facts, inventory.problem)
    cuda = inventory.cuda_version
    serves = f", for CUDA up to {cuda[0]}.{cuda[1]}" if cuda else ""
    if not inventory.gpus:
        return skip(f"driver {inventory.driver_version}{serves} finds no GPU")
    return ok(f"driver {inventory.driver_version or 'of unknown version'}{serves}")


def _does_not_answer(facts: Facts, problem: str) -> Finding:
    cause = cause_of(facts)
    if cause == "none":
        says = "no NVIDIA GPU here: programs run on the CPU"
        if other := facts.system.other_gpu:
            says = f"this machine has {other}: programs may use it without a limit"
        return skip(says, problem)
    if cause in EXPLAINED_BY:
        return skip(f"the driver cannot be queried: see {EXPLAINED_BY[cause]}", problem)
    seen = _what_tells_of_a_gpu(facts)
    if cause == "no_driver":
        detail = (_NOUVEAU,) if facts.system.nouveau else ()
        loads = "sudo modprobe nvidia && nvidia-smi"
        fix = loads if facts.inventory.problem_code == "not_loaded" else _install(facts)
        return fail("a GPU is installed, but no NVIDIA driver is loaded", *seen, *detail, fix=fix)
    if cause == "no_library":
        return fail(
            "the kernel module is loaded, but its library libnvidia-ml.so.1 cannot be opened",
            *seen,
            fix=_install(facts),
        )
    if cause == "too_old":
        return fail(problem, *seen, fix=_install(facts))
    return fail(problem, *seen, fix="nvidia-smi; sudo dmesg | grep -i nvrm")


def _install(facts: Facts) -> str:
    """The install command for this distribution, or the closest known one."""
    if facts.system.is_windows:
        return "nvidia-smi   # then install the driver from https://www.nvidia.com/drivers"
    known = (_INSTALL[name] for name in facts.system.distributions if name in _INSTALL)
    return next(known, f"{_INSTALL['ubuntu']}   # elsewhere: {_GUIDE}")


def _what_tells_of_a_gpu(facts: Facts) -> list[str]:
    system = facts.system
    found = [f"NVIDIA GPU on the PCI bus: {address}" for address in system.pci_cards or ()]
    if system.module_version:
        found.append(f"kernel module {system.module_version} is loaded")
    return found


def _module(facts: Facts) -> Finding:
    system = facts.system
    module = system.module_version
    library = facts.inventory.driver_version or system.library_version
    if cause_of(facts) == "mismatch":
        return fail(
            f"{_versions(module, library)}: nothing can use the GPU",
            "this happens after a driver update, until the module is loaded again",
            "without a restart: stop everything that uses the GPU, then "
            "`sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && nvidia-smi`",
            fix="sudo reboot",
        )
    if module is None or facts.inventory.problem is not None:
        return skip("the version of NVIDIA's kernel module cannot be determined here")
    return ok(f"kernel module and library match: {module}")


def _versions(module: str | None, library: str | None) -> str:
    if module is None or library is None:
        known = f" (module {module})" if module else f" (library {library})" if library else ""
        return f"the driver's kernel module and its library differ in version{known}"
    return f"the driver's kernel module is {module}, and its library {library}"


def _devices(facts: Facts) -> Finding:
    nodes = facts.system.nodes
    closed = [node for node in nodes if not node.may_open]
    listed = tuple(f"{node.path} {node.mode} group {node.group or '?'}" for node in nodes)
    if closed or cause_of(facts) == "permission":
        names = ", ".join(node.path for node in closed) or "/dev/nvidia*"
        groups = {node.group or "" for node in closed} & {"video", "render", "vglusers"}
        fix = f"sudo usermod -aG {min(groups)} $USER   # then log in again" if groups else (
            f"sudo chmod a+rw {' '.join(node.path for node in closed) or '/dev/nvidia*'}"
        )  # fmt: skip
        return fail(f"this user has no permission to open {names}", *listed, fix=fix)
    if not nodes:
        return skip("there are no /dev/nvidia* files here")
    names_there = {node.path for node in nodes}
    if "/dev/nvidia-uvm" not in names_there and not facts.system.has_modprobe:
        return warn(
            "/dev/nvidia-uvm is missing, and CUDA cannot start without it",
            "nvidia-modprobe, which creates it at the first use, is not installed",
            *listed,
            fix=_MAKE_UVM,
        )
    return ok(f"{len(nodes)} device files, all of them accessible to this user", *listed)


def _container(facts: Facts) -> Finding:
    kind = facts.system.container
    if kind is None:
        return skip("this is not a container")
    if cause_of(facts) == "container" and facts.system.nodes:
        return fail(
            f"this {kind} container was given the GPU without the library libnvidia-ml.so.1",
            "TensorFlow lists no GPU without it; it belongs to the driver capability `utility`",
            fix=_WITH_NVML.get(kind, _WITH_NVML["docker"]),
        )
    if cause_of(facts) == "container":
        host = facts.system.module_version
        driver = f" with driver {host}" if host else ""
        return fail(
            f"the host has a GPU{driver}, but this {kind} container was started without it",
            "the NVIDIA Container Toolkit must be installed on the host",
            fix=_WITH_GPU.get(kind, _WITH_GPU["docker"]),
        )
    if facts.has_gpu:
        return ok(f"this {kind} container was given {_count(facts)}")
    return skip(f"a {kind} container, and no sign of a GPU on its host")


def _wsl(facts: Facts) -> Finding:
    system = facts.system
    if not system.spills:
        return skip("this is not WSL")
    if facts.has_gpu:
        return ok(
            "WSL2 with Windows' own driver" if system.is_wsl else "Windows with NVIDIA's driver",
            "memory per process is not reported there",
            "a program that needs more memory than the GPU has gets slow host memory instead",
        )
    if not system.has_wsl_library:
        return skip("WSL without Windows' NVIDIA driver")
    if not system.has_dxg:
        return fail(
            "Windows' NVIDIA driver is installed, but /dev/dxg is missing: WSL 1, or an old kernel",
            fix="wsl.exe --update && wsl.exe --shutdown",
        )
    return fail(
        "Windows' NVIDIA driver is installed, but does not respond",
        facts.inventory.problem or "it lists no GPU",
        "no Linux driver may be installed inside WSL: it hides Windows' own",
        fix="export LD_LIBRARY_PATH=/usr/lib/wsl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
    )


def _count(facts: Facts) -> str:
    count = len(facts.inventory.gpus)
    return f"{count} GPU{'' if count == 1 else 's'}"


def _cuda(facts: Facts) -> Finding:
    """Only the major version matters: within it, any driver supports any CUDA version."""
    serves = facts.inventory.cuda_version
    build, torch = facts.packages.tensorflow, facts.packages.torch
    wanted = {
        "tensorflow": build.cuda_version if build and build.is_cuda else None,
        "torch": torch.cuda_version if torch else None,
        **{name: name.removeprefix("jax-cuda").removesuffix("-plugin")
           for name in cuda_plugins(facts.packages)},
    }  # fmt: skip
    asked = {name: version for name, version in wanted.items() if version}
    if not facts.has_gpu or serves is None:
        return skip(NO_GPU)
    if not asked:
        return skip("no framework with a CUDA build is installed")
    builds = " and ".join(f"{name} is built for CUDA {version}" for name, version in asked.items())
    majors = [int(version.split(".")[0]) for version in asked.values()]
    if max(majors) > serves[0]:
        return fail(
            f"driver {facts.inventory.driver_version} supports CUDA up to {serves[0]}.{serves[1]}, "
            f"but {builds}",
            f"the required driver is {_OLDEST_DRIVER.get(max(majors), 'of that CUDA')} or newer",
            fix=_install(facts),
        )
    return ok(f"the driver supports CUDA up to {serves[0]}.{serves[1]}; {builds}")


CHECKS = (
    Check("driver.present", "a driver is installed, and NVML responds", _present),
    Check("driver.module", "the kernel module and the user library are the same version", _module),
    Check("driver.devices", "this user can open the files /dev/nvidia*", _devices),
    Check("driver.container", "a container has access to its host's GPUs", _container),
    Check("driver.wsl", "under WSL2, programs can use Windows' driver", _wsl),
    Check("driver.cuda", "the driver is new enough for the frameworks' CUDA", _cuda),
)
