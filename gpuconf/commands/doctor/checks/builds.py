"""Whether the installed build can use this GPU: its CUDA libraries, kernels and Keras backend."""

from __future__ import annotations

import shlex

from gpuconf.commands.doctor.checks.check import NO_GPU, Check, fail, ok, skip, warn
from gpuconf.commands.doctor.checks.packages import (
    TORCH_FOR_GPUS,
    is_for_cpu,
    jax_for_gpus,
    tensorflow_name,
)
from gpuconf.commands.doctor.checks.requirements import parse_requirement, release
from gpuconf.commands.doctor.facts import Facts, Packages
from gpuconf.commands.doctor.finding import Finding
from gpuconf.machine.cards import Gpu

_NO_CUDA_BUILD = "no CUDA build of TensorFlow is installed"
_WITH_CUDA = {"tensorflow": "'tensorflow[and-cuda]'", "jax": "'jax[cuda12]'"}
_TORCH_DEVICE = "KERAS_TORCH_DEVICE"  # keras/src/backend/torch/core.py
_BACKENDS = ("tensorflow", "jax", "torch", "numpy", "openvino")


def _install(facts: Facts) -> str:
    name = tensorflow_name(facts.packages) or ""
    version = facts.packages.version(name) or ""
    if release(version) < (2, 14):  # these versions lack the extra; pip would only warn
        return "pip install -U 'tensorflow[and-cuda]'"
    wheel = "tf-nightly" if name == "tf-nightly" else "tensorflow"
    return f"pip install '{wheel}[and-cuda]=={version}'"


def _cuda_libraries(facts: Facts) -> Finding:
    """TensorFlow opens all of them at startup; if one is missing, it logs once and uses the CPU."""
    libraries = facts.packages.libraries
    if not libraries:
        return skip(_NO_CUDA_BUILD)
    if not facts.has_gpu:
        return skip(NO_GPU)
    lines = [
        f"{library.soname}: {library.problem or library.path or 'not found'}"
        for library in libraries
    ]
    missing = [library.soname for library in libraries if library.path is None]
    broken = [library for library in libraries if library.problem is not None]
    if missing:
        return fail(
            f"TensorFlow would use the CPU: {_some(missing)} cannot be found",
            *lines,
            fix=_install(facts),
        )
    if broken:
        return fail(
            f"TensorFlow would use the CPU: {broken[0].soname} cannot be loaded: "
            f"{broken[0].problem}",
            *lines,
            fix=f"unset LD_LIBRARY_PATH; {_install(facts)}"
            if broken[0].place == "LD_LIBRARY_PATH"
            else _install(facts).replace("install ", "install --force-reinstall "),
        )
    places = ", ".join(dict.fromkeys(library.place or "" for library in libraries))
    return ok(f"all {len(libraries)} CUDA libraries open, from {places}", *lines)


def _jax_libraries(facts: Facts) -> Finding:
    """JAX's plugin queries the version of each library at startup.

    If one is missing, JAX uses the CPU (jax_plugins/xla_cuda12/__init__.py, _check_cuda_versions).
    """
    libraries = facts.packages.jax_libraries
    if not libraries:
        return skip("JAX's plugin for CUDA is not installed")
    if not facts.has_gpu:
        return skip(NO_GPU)
    lines = [f"{library.soname}: {library.path or 'not found'}" for library in libraries]
    missing = [library.soname for library in libraries if library.path is None]
    if missing:
        return fail(
            f"JAX would use the CPU: {_some(missing)} cannot be found",
            *lines,
            fix=jax_for_gpus(facts.packages),
        )
    places = ", ".join(dict.fromkeys(library.place or "" for library in libraries))
    return ok(f"all {len(libraries)} CUDA libraries of JAX are found, from {places}", *lines)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:2])
    return shown if len(names) < 3 else f"{shown} and {len(names) - 2} more"


def _cudnn(facts: Facts) -> Finding:
    """Compare the loaded cuDNN with the version that TensorFlow was compiled with.

    The major version must be the same, and the minor version the same or higher ("Loaded runtime
    CuDNN library … but source was compiled with").
    """
    found = next((lib for lib in facts.packages.libraries if lib.version is not None), None)
    if found is None or found.version is None:
        return skip("no cuDNN for TensorFlow has been opened")
    least = _least_cudnn(facts)
    if least is None:
        return ok(f"cuDNN {found.version}", found.path or "")
    if (
        release(found.version)[0] != release(least)[0]
        or release(found.version) < release(least)[:2]
    ):
        return fail(
            f"cuDNN {found.version} is loaded, but this TensorFlow was compiled with {least}",
            f"it comes from {found.place}: {found.path}",
            fix=f"unset LD_LIBRARY_PATH; {_install(facts)}"
            if found.place == "LD_LIBRARY_PATH"
            else _install(facts),
        )
    return ok(f"cuDNN {found.version}, at least {least} is required", found.path or "")


def _least_cudnn(facts: Facts) -> str | None:
    """The cuDNN version in the wheel's and-cuda extra; build_info has only the major version."""
    package = facts.packages.installed.get(tensorflow_name(facts.packages) or "")
    for text in package.requires if package else ():
        wish = parse_requirement(text, python=facts.packages.python)
        if wish is not None and wish.name.startswith("nvidia-cudnn"):
            return wish.least
    return None


def _compute_capability(facts: Facts) -> Finding:
    """Compare the build's kernels with the GPUs.

    Code for sm_XY runs on GPUs with major version X and minor version Y or higher; the driver
    compiles PTX for any newer GPU (CUDA C++ programming guide, "Compute capability"). In
    TensorFlow's list compute_XY means both (third_party/gpus/cuda_configure.bzl:
    --cuda-include-ptx=sm_XY with --cuda-gpu-arch=sm_XY).
    """
    build = facts.packages.tensorflow
    if build is None or not build.compute_capabilities:
        return skip(_NO_CUDA_BUILD)
    known = [gpu for gpu in facts.inventory.gpus if gpu.compute_capability is not None]
    if not known:
        return skip("no GPU reports its compute capability" if facts.has_gpu else NO_GPU)
    has = f"this TensorFlow has {', '.join(build.compute_capabilities)}"
    how = {gpu: _coverage(gpu.compute_capability or (0, 0), build.compute_capabilities)
           for gpu in known}  # fmt: skip
    uncovered = [gpu for gpu in known if how[gpu] == "none"]
    if uncovered:
        return fail(
            f"TensorFlow has no kernels for {_cards(uncovered)}",
            has,
            fix=_build_for(uncovered[0], build.compute_capabilities),
        )
    compiled = [gpu for gpu in known if how[gpu] == "ptx"]
    if compiled:
        return warn(
            f"TensorFlow has no kernels for {_cards(compiled)}: the driver compiles them first",
            has,
            "the first start may take half an hour, according to TensorFlow; some operations may "
            "fail with CUDA_ERROR_INVALID_PTX",
            fix="export CUDA_CACHE_MAXSIZE=4294967296   # so that this is done only once; or "
            "upgrade: pip install -U 'tensorflow[and-cuda]'",
        )
    return ok(f"TensorFlow has kernels for {_cards(known)}", has)


def _cards(gpus: list[Gpu]) -> str:
    names = []
    for gpu in gpus:
        major, minor = gpu.compute_capability or (0, 0)
        names.append(f"{gpu.name or f'GPU {gpu.index}'} (compute capability {major}.{minor})")
    return ", ".join(dict.fromkeys(names))


def _coverage(card: tuple[int, int], capabilities: tuple[str, ...]) -> str:
    """``native``, ``ptx`` or ``none``."""
    best = "none"
    for text in capabilities:
        kind, _, digits = text.partition("_")
        if not digits.rstrip("af").isdigit():
            continue
        digits = digits.rstrip("af")
        major, minor = int(digits[:-1]), int(digits[-1])
        if card[0] == major and card[1] >= minor:
            return "native"
        if kind == "compute" and card >= (major, minor):
            best = "ptx"
    return best


def _build_for(gpu: Gpu, capabilities: tuple[str, ...]) -> str:
    """A build that may have kernels for a GPU, if this one has none."""
    digits = [text.partition("_")[2].rstrip("af") for text in capabilities]
    newest = max((int(each) for each in digits if each.isdigit()), default=0)
    major, minor = gpu.compute_capability or (0, 0)
    if major * 10 + minor > newest:
        return "pip install -U 'tensorflow[and-cuda]'   # or NVIDIA's: nvcr.io/nvidia/tensorflow"
    if major < 5:  # no wheel with the extra and-cuda (2.14 and later) supports it
        return "export GPUCONF_PROFILE=cpu-only"
    return (
        "pip install 'tensorflow[and-cuda]<2.16'   "
        "# the last builds for old GPUs; for Python 3.9 to 3.11"
    )


def _backends_there(packages: Packages) -> list[str]:
    """The Keras backends whose packages are installed."""
    named = {name: name for name in _BACKENDS} | {"tensorflow": tensorflow_name(packages) or ""}
    return [backend for backend, package in named.items() if package in packages.installed]


def _keras_backend(facts: Facts) -> Finding:
    packages = facts.packages
    version, choice = packages.version("keras"), packages.keras
    if version is None or release(version) < (3,):
        return skip("Keras 3 is not installed")
    if choice.problem is not None:
        fix = f"rm {shlex.quote(choice.set_by)}   # Keras writes a new one"
        return warn(choice.problem, fix=fix)
    choice_text = f"Keras {version} runs on {choice.backend}, set by {choice.set_by}"
    there = _backends_there(packages)
    if choice.backend not in _BACKENDS:
        fix = f"export KERAS_BACKEND={next(iter(there), 'tensorflow')}"
        return fail(f"{choice_text}, which is not a backend: its import fails", fix=fix)
    if choice.backend not in there:
        wheel = _WITH_CUDA.get(choice.backend) if facts.has_gpu else None
        other = f"   # or: export KERAS_BACKEND={there[0]}" if there else ""
        fix = f"pip install {wheel or choice.backend}{other}"
        return fail(f"{choice_text}, which is not installed", fix=fix)
    why, fix = _kept_on_the_cpu(facts) if facts.has_gpu else (None, "")
    return warn(f"{choice_text}, {why}", fix=fix) if why else ok(choice_text)


def _kept_on_the_cpu(facts: Facts) -> tuple[str | None, str]:
    """Why Keras on torch would not use the GPU, and the fix."""
    device = facts.environ.get(_TORCH_DEVICE, "")
    if facts.packages.keras.backend != "torch":
        return None, ""
    if is_for_cpu(facts.packages.torch):
        return "which is built for the CPU", TORCH_FOR_GPUS
    if device.startswith("cpu"):
        return f"on the CPU: {_TORCH_DEVICE}={device}", f"unset {_TORCH_DEVICE}"
    return None, ""


CHECKS = (
    Check("packages.cuda_libraries", "the CUDA libraries that TensorFlow opens are found and load",
          _cuda_libraries),
    Check("packages.jax_libraries", "the CUDA libraries that JAX needs are found",
          _jax_libraries),
    Check("packages.cudnn", "cuDNN is as new as the one TensorFlow was compiled with", _cudnn),
    Check("packages.compute_capability", "TensorFlow has kernels for the GPUs",
          _compute_capability),
    Check("packages.keras_backend", "the backend that Keras will use, and what set it",
          _keras_backend),
)  # fmt: skip
