"""The installed packages: whether they are compatible with each other and with the GPU."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuconf.commands.doctor.checks.check import Check, fail, ok, skip, warn
from gpuconf.commands.doctor.checks.driver_cause import cause_of
from gpuconf.commands.doctor.checks.requirements import Requirement, parse_requirement, release
from gpuconf.commands.doctor.facts import Facts, Packages, TorchBuild
from gpuconf.commands.doctor.finding import Finding

# Distributions that all install into the same folder, tensorflow/.
_TENSORFLOWS = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "tensorflow-rocm",
    "intel-tensorflow",
    "tf-nightly",
    "tf-nightly-cpu",
)
# Plugins for GPUs without CUDA; what fails is reported in tensorflow/tensorflow#126360.
_PLUGINS = ("tensorflow-metal", "tensorflow-directml-plugin")
_FIRST_WITHOUT_METAL = (2, 20)
_OTHER_FRAMEWORKS = {"Keras": "keras", "tf_keras": "tf-keras", "PyTorch": "torch", "JAX": "jax"}
# Combinations that fail at startup, and the symptom; others may work despite their metadata.
_DOES_NOT_START = {
    # NumPy 2.0 migration guide: extensions compiled for NumPy 1 must be rebuilt.
    (
        "tensorflow",
        "numpy",
    ): "TensorFlow was compiled for a different version of NumPy: its import fails",
    # protobuf, "Python upgrades": generated code rejects an older or a much newer runtime.
    ("tensorflow", "protobuf"): "TensorFlow's import fails in generated protobuf code",
    # keras.io, "Getting started": TensorFlow 2.16 and later need Keras 3, 2.15 and earlier Keras 2.
    ("tensorflow", "keras"): "this version of Keras requires a different version of TensorFlow",
    # tf_keras's metadata and README: the minor versions must match.
    ("tf-keras", "tensorflow"): "tf_keras and TensorFlow must have the same minor version",
    ("jax", "jaxlib"): "jax refuses to start with this jaxlib",
    # github.com/pytorch/vision, README: each release is compiled for one torch version.
    ("torchvision", "torch"): "its import fails: operator torchvision::nms does not exist",
    ("torchaudio", "torch"): "torchaudio's libraries do not load with a different version of torch",
}
# On PyPI, torch for Linux is the CUDA build; the CPU build has a version like 2.9.0+cpu.
TORCH_FOR_GPUS = "pip install --force-reinstall --index-url https://pypi.org/simple torch"


def tensorflow_name(packages: Packages) -> str | None:
    """The name of the distribution that provides TensorFlow."""
    return next((name for name in _TENSORFLOWS if name in packages.installed), None)


def _frameworks(facts: Facts) -> Finding:
    """The examined Python and its frameworks; an environment just for gpuconf often has none."""
    packages = facts.packages
    python = packages.interpreter
    if python is None:
        return skip("the Python to check is unknown")
    named = {"TensorFlow": tensorflow_name(packages), **_OTHER_FRAMEWORKS}
    versions = ((name, packages.version(package or "")) for name, package in named.items())
    found = [f"{name} {version}" for name, version in versions if version is not None]
    if found:
        return ok(f"{python}: {', '.join(found)}", f"in {python.prefix}")
    other = packages.on_path
    fix = f"gpuconf doctor --python {shlex.quote(other or '/path/to/python')}"
    return warn(
        f"no TensorFlow, Keras, PyTorch or JAX in {python}",
        "only the packages of this Python were checked",
        fix=f"{fix}   # or another Python: the one that trains",
    )


def _tensorflow(facts: Facts) -> Finding:
    packages = facts.packages
    name, build = tensorflow_name(packages), packages.tensorflow
    if name is None:
        return skip("TensorFlow is not installed for this Python")
    version = packages.version(name) or ""
    plugin = next(filter(packages.version, _PLUGINS), None)
    if plugin is not None:
        return _with_plugin(plugin, packages, name, version)
    if build is None:
        return ok(f"{name} {version}, whose kind of build is unknown")
    if build.is_cuda or build.is_rocm:
        made = (
            f"CUDA {build.cuda_version}, cuDNN {build.cudnn_version}" if build.is_cuda else "ROCm"
        )
        return ok(f"{name} {version}, built for {made}")
    if not facts.has_gpu:
        return ok(f"{name} {version}, built for the CPU")
    remove = "" if name == "tensorflow" else f"pip uninstall -y {name} && "
    return warn(
        f"{name} {version} is built for the CPU: it cannot use the GPU",
        fix=f"{remove}pip install --force-reinstall 'tensorflow[and-cuda]=={version}'",
    )


def _with_plugin(plugin: str, packages: Packages, name: str, version: str) -> Finding:
    both = f"{name} {version} with {plugin} {packages.version(plugin)}"
    if plugin != "tensorflow-metal" or release(version) < _FIRST_WITHOUT_METAL:
        return ok(f"{both}, which sets no memory limit")
    return fail(
        f"{both}: `import tensorflow` fails",
        "the plugin's last release works with TensorFlow 2.18.1 and 2.19",
        fix=f"pip install '{name}>=2.18.1,<2.20'   # or: pip uninstall {plugin}",
    )


def _copies(facts: Facts) -> Finding:
    found = [name for name in _TENSORFLOWS if name in facts.packages.installed]
    listed = ", ".join(f"{name} {facts.packages.version(name)}" for name in found)
    if len(found) > 1:
        return fail(
            f"{listed} are installed over each other: their files are mixed",
            "uninstalling one of them removes files of the others too",
            fix=f"pip uninstall -y {' '.join(found)} && pip install 'tensorflow[and-cuda]'",
        )
    if found == ["tensorflow-gpu"]:
        # pypi.org/project/tensorflow-gpu: removed in December 2022; `tensorflow` replaces it.
        return warn(
            f"{listed}: the package tensorflow-gpu is no longer maintained",
            fix="pip uninstall -y tensorflow-gpu && pip install 'tensorflow[and-cuda]'",
        )
    return ok(f"one TensorFlow: {listed}") if found else skip("TensorFlow is not installed")


def _requirements(facts: Facts) -> Finding:
    """Compare the frameworks' requirements (Requires-Dist) with the installed versions."""
    broken = list(_broken(facts.packages))
    if not any(package.requires for package in facts.packages.installed.values()):
        return skip("no framework is installed")
    if not broken:
        return ok("the frameworks' versions are compatible")
    lines = []
    fatal = None
    for name, wish in broken:
        key = ("tensorflow" if name in _TENSORFLOWS else name, wish.name)
        fatal = fatal or _DOES_NOT_START.get(key)
        lines.append(_conflict(facts.packages, name, wish))
    fixes = " ".join(
        dict.fromkeys(_to_install(facts.packages, name, wish) for name, wish in broken)
    )
    judge = fail if fatal else warn
    more = f"; and {len(lines) - 1} more" if len(lines) > 1 else ""
    because = (fatal,) if fatal else ()
    return judge(f"{lines[0]}{more}", *because, *lines[1:], fix=f"pip install {fixes}")


def _broken(packages: Packages) -> Iterator[tuple[str, Requirement]]:
    for package in packages.installed.values():
        for text in package.requires:
            wish = parse_requirement(text, python=packages.python)
            if wish is None or wish.extra is not None:
                continue
            version = packages.version(wish.name)
            if version is not None and not wish.allows(version):
                yield package.name, wish


def _conflict(packages: Packages, name: str, wish: Requirement) -> str:
    return (
        f"{name} {packages.version(name)} requires {wish.name}{wish.clauses}, "
        f"but {packages.version(wish.name)} is installed"
    )


def _to_install(packages: Packages, name: str, wish: Requirement) -> str:
    """The requirement to install: one that matches the installed framework, not another one."""
    if (name, wish.name) == ("tf-keras", "tensorflow"):
        minor = release(packages.version("tensorflow") or "")[:2]
        return f"'tf_keras~={'.'.join(map(str, minor))}.0'"
    if name in ("torchvision", "torchaudio"):  # pip then finds the matching version
        kept = ".".join(map(str, release(packages.version("torch") or "")))
        return f"'torch=={kept}' {name}"
    return f"'{wish.name}{wish.clauses.replace(' ', '')}'"


def _cuda_packages(facts: Facts) -> Finding:
    """Check NVIDIA's pip packages, which the extras of TensorFlow, JAX and torch require.

    A pin (==) is the version that a wheel was tested with; a newer one with the same major version
    works.
    """
    packages = facts.packages
    if not any(name.startswith("nvidia-c") for name in packages.installed):
        return skip("none of NVIDIA's libraries is installed with pip")
    broken = []
    for package in packages.installed.values():
        wishes = (parse_requirement(text, python=packages.python) for text in package.requires)
        for wish in wishes:
            version = packages.version(wish.name) if wish else None
            if wish is None or version is None or not wish.name.startswith("nvidia-"):
                continue
            if not wish.allows(version) and not _is_newer(version, wish.least):
                broken.append((package.name, wish))
    if not broken:
        return ok("NVIDIA's pip packages are the ones that the frameworks require")
    apart = "frameworks that require different ones each need a separate environment"
    lines = [_conflict(packages, name, wish) for name, wish in broken]
    fixes = " ".join(dict.fromkeys(_to_install(packages, name, wish) for name, wish in broken))
    return warn(lines[0], *lines[1:], apart, fix=f"pip install {fixes}")


def _is_newer(version: str, least: str | None) -> bool:
    """Whether ``version`` is newer than ``least`` and has the same major version."""
    if least is None:
        return False
    found, wanted = release(version), release(least)
    return found[:1] == wanted[:1] and found > wanted


def cuda_plugins(packages: Packages) -> dict[str, str]:
    """JAX's installed CUDA plugins, by name, with their versions."""
    return {name: package.version for name, package in packages.installed.items()
            if name.startswith("jax-cuda") and name.endswith("-plugin")}  # fmt: skip


def jax_for_gpus(packages: Packages) -> str:
    """The command that installs the plugin and the CUDA libraries for the installed JAX."""
    return f"pip install 'jax[cuda12]=={packages.version('jax')}'"


def _jax(facts: Facts) -> Finding:
    """JAX ignores a plugin whose version does not match, and warns once (jaxlib/plugin_support.py).

    A CPU-only JAX is judged like a CPU-only torch.
    """
    packages = facts.packages
    jax, jaxlib = packages.version("jax"), packages.version("jaxlib")
    if jax is None or jaxlib is None:
        return skip("JAX is not installed")
    plugins = cuda_plugins(packages)
    for name, version in plugins.items():
        client = name.replace("-plugin", "-pjrt")
        found = packages.version(client)
        if release(version) != release(jaxlib):
            return fail(
                f"{name} {version} is not compatible with jaxlib {jaxlib}: "
                "JAX ignores it, and uses the CPU",
                fix=f"pip install '{name}=={jaxlib}' '{client}=={jaxlib}'",
            )
        if found is None or release(found) != release(version):
            there = "is not installed" if found is None else f"is version {found}"
            return fail(
                f"{name} {version} needs {client} {version}, which {there}: JAX uses the CPU",
                fix=f"pip install '{client}=={version}'",
            )
    if not plugins and facts.has_gpu and packages.keras.backend == "jax":
        why = f"Keras uses the JAX backend, but jax {jax} is installed without CUDA"
        return warn(why, fix=jax_for_gpus(packages))
    if not plugins and facts.has_gpu and not _has_cuda(packages):
        why = f"jax {jax} is installed without CUDA: it uses the CPU"
        return warn(why, fix=jax_for_gpus(packages))
    return ok(f"jax {jax} with jaxlib {jaxlib}, for {', '.join(plugins) or 'the CPU only'}")


def _has_cuda(packages: Packages) -> bool:
    """Whether any installed framework is built for CUDA."""
    tensorflow, torch = packages.tensorflow, packages.torch
    return bool(
        (tensorflow is not None and (tensorflow.is_cuda or tensorflow.is_rocm))
        or (torch is not None and not is_for_cpu(torch))
        or cuda_plugins(packages)
    )


def is_for_cpu(build: TorchBuild | None) -> bool:
    """Whether torch is installed and built without GPU support."""
    return build is not None and build.cuda_version is None and build.rocm_version is None


def _torch(facts: Facts) -> Finding:
    """A CPU-only torch is a problem if it does the computing.

    It may be intentional if another CUDA framework is installed as well, and packages.keras_backend
    reports whether Keras uses it.
    """
    packages = facts.packages
    version, build = packages.version("torch"), packages.torch
    if version is None:
        return skip("torch is not installed for this Python")
    if build is None:
        return ok(f"torch {version}, whose kind of build is unknown")
    if build.cuda_version is not None:
        return ok(f"torch {version}, built for CUDA {build.cuda_version}")
    if build.rocm_version is not None:
        return ok(f"torch {version}, built for ROCm {build.rocm_version}")
    if not facts.has_gpu or _has_cuda(packages):
        return ok(f"torch {version}, built for the CPU")
    return warn(
        f"torch {version} is built for the CPU: torch.cuda.is_available() is False",
        fix=TORCH_FOR_GPUS,
    )


def _nvml_binding(facts: Facts) -> Finding:
    """pynvml before version 12 installs its own module, which shadows the one from nvidia-ml-py."""
    packages = facts.packages
    other, ours = packages.version("pynvml"), packages.version("nvidia-ml-py")
    if cause_of(facts) == "binding":
        return fail(
            facts.inventory.problem or "nvidia-ml-py cannot be used",
            fix="pip uninstall -y pynvml; pip install --force-reinstall nvidia-ml-py",
        )
    if other is not None and release(other) < (12,):
        return warn(
            f"pynvml {other}, no longer maintained, hides nvidia-ml-py {ours or ''}".rstrip(),
            "both provide a module named pynvml; the older one does not support newer drivers",
            fix="pip uninstall -y pynvml && pip install --force-reinstall nvidia-ml-py",
        )
    if ours is None:
        return skip("nvidia-ml-py is not installed as a package")
    return ok(f"nvidia-ml-py {ours}")


CHECKS = (
    Check("packages.frameworks", "the checked Python has a framework", _frameworks),
    Check("packages.tensorflow", "the installed TensorFlow is built for the GPU", _tensorflow),
    Check(
        "packages.tensorflow_copies",
        "only one TensorFlow package is installed, and it is maintained",
        _copies,
    ),
    Check("packages.requirements", "the frameworks' versions are compatible", _requirements),
    Check("packages.cuda_packages", "NVIDIA's pip packages match the frameworks", _cuda_packages),
    Check("packages.jax", "JAX and its CUDA plugin are the same version", _jax),
    Check("packages.torch", "the installed torch is built for the GPU", _torch),
    Check("packages.nvml_binding", "the module pynvml is NVIDIA's own", _nvml_binding),
)
