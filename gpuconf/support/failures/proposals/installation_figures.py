"""What the texts in ``changes/*.yaml`` can insert about libraries, packages and the GPU's build."""

from __future__ import annotations

from collections.abc import Callable

from gpuconf.support.failures.proposals.libraries import (
    Libraries,
    missing_libraries,
    wanted_libraries,
)
from gpuconf.support.failures.reading import LogFacts

_WITH_CUDA = "pip install 'tensorflow[and-cuda]'"
_REINSTALL = {
    "jax": "pip install --upgrade 'jax[cuda12]'",
    "torch": "pip install --force-reinstall torch   # with the --index-url that pytorch.org shows "
    "for a CUDA",
    "tensorflow": _WITH_CUDA,
}
_ANY_BUILD = "pip install --upgrade PACKAGE   # the build for your GPU and its CUDA"
# NVIDIA's packages whose libraries bear the number of their CUDA.
_PACKAGES = {
    "libcudart": "cuda-runtime",
    "libcublas": "cublas",
    "libcublasLt": "cublas",
    "libnvJitLink": "nvjitlink",
    "libnvrtc": "cuda-nvrtc",
}


def _missing(facts: LogFacts) -> str:
    missing = missing_libraries(facts)
    return f" ({', '.join(missing)})" if missing else ""


def _wanted(facts: LogFacts) -> Libraries:
    found = wanted_libraries(facts)
    assert found is not None, "a text with {wanted_libraries} needs the condition libraries-known"
    return found


def _wanted_libraries(facts: LogFacts) -> str:
    cuda, cudnn = _wanted(facts)
    return f"CUDA {cuda}" + (f" and cuDNN {cudnn}" if cudnn else "")


def _wanted_packages(facts: LogFacts) -> str:
    cuda, cudnn = _wanted(facts)
    packages = " ".join([f"cudatoolkit={cuda}", *([f"cudnn={cudnn}"] if cudnn else [])])
    if facts.on_windows:
        return packages
    return f"{packages}\n# or: export LD_LIBRARY_PATH=/usr/local/cuda-{cuda}/lib64:$LD_LIBRARY_PATH"


def _needed(facts: LogFacts) -> str:
    return str(facts.details.get("needed_by_library", ""))


def _needed_install(facts: LogFacts) -> str:
    name, _, major = _needed(facts).partition(".so.")
    package = _PACKAGES.get(name)
    if package is None:
        return _reinstall(facts)
    return f"pip install nvidia-{package}-cu{major}   # its folder belongs in LD_LIBRARY_PATH"


def _reinstall(facts: LogFacts) -> str:
    return _REINSTALL.get(facts.framework or "", _ANY_BUILD)


def _upgrade(facts: LogFacts) -> str:
    of_tensorflow = facts.framework == "tensorflow"
    return f"{_WITH_CUDA} --upgrade" if of_tensorflow else _reinstall(facts)


def _capability(facts: LogFacts) -> str | None:
    return facts.card.compute_capability if facts.card is not None else None


def _code_for(facts: LogFacts) -> str:
    capability = _capability(facts)
    return f"compute capability {capability}" if capability else "this GPU"


def _least_capability(facts: LogFacts) -> str:
    least = facts.details.get("minimum_capability")
    return f" and this build wants {least}" if least else ""


INSTALLATION: dict[str, Callable[[LogFacts], str]] = {
    "missing": _missing,
    "missing_list": lambda facts: (
        f"missing: {', '.join(missing)}; " if (missing := missing_libraries(facts)) else ""
    ),
    "wanted_libraries": _wanted_libraries,
    "wanted_packages": _wanted_packages,
    "library_path": lambda facts: "PATH" if facts.on_windows else "LD_LIBRARY_PATH",
    "needed_install": _needed_install,
    "needed_major": lambda facts: _needed(facts).rpartition(".")[2],
    "loaded_cudnn": lambda facts: str(facts.details.get("loaded_cudnn", "of the system")),
    "reinstall": _reinstall,
    "upgrade": _upgrade,
    "capability": _code_for,
    "card_capability": lambda facts: _capability(facts) or "unknown",
    "least_capability": _least_capability,
}
