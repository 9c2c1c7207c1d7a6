"""The CUDA and cuDNN versions that an old TensorFlow was built with, before pip installed them."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuconf.support.failures.proposals.stack import tensorflow_version
from gpuconf.support.failures.reading import LogFacts

# The first TensorFlow version, and the CUDA and cuDNN that it was built with.
_BUILT_WITH: tuple[tuple[tuple[int, int], str, str], ...] = (
    ((2, 14), "11.8", "8.7"), ((2, 12), "11.8", "8.6"), ((2, 5), "11.2", "8.1"),
    ((2, 4), "11.0", "8.0"), ((2, 1), "10.1", "7.6"), ((1, 13), "10.0", "7.6"),
    ((1, 5), "9.0", "7.6"), ((1, 3), "8.0", "6.0"), ((0, 12), "8.0", "5.1"),
)  # fmt: skip
_RUNTIME = re.compile(
    r"lib(?:cudart|cublas|cufft|curand|cusolver|cusparse)\.so\.((?:[5-9]|10)\.\d)"
)
_CUDNN = re.compile(r"libcudnn\.so\.(\d)|cudnn(?:_\w{1,30})?64_([5-8])\.dll")
# Since CUDA 10.1, cuBLAS has only the major version; libcudart.so.11.0 serves all of CUDA 11.
_MAJOR = re.compile(r"lib(?:cublas|cudart)\.so\.(1[01])(?:\.0)?$|cu\w{3,8}64_(11)\d?\.dll")
_LAST_BUILT = {"10": "10.1", "11": "11.2"}
_OPTIONAL = ("libnvinfer", "librocm", "libamdhip")
# Windows names: cudart64_101.dll belongs to CUDA 10.1; from 11 on they omit the minor version.
_DLL = re.compile(r"cu\w{3,8}64_(8|9|10)(\d)\.dll")


class Libraries(NamedTuple):
    """Versions; ``cudnn`` is None if it is not known."""

    cuda: str
    cudnn: str | None


def missing_libraries(facts: LogFacts) -> list[str]:
    """The files that the log reports missing, if possible without those missing at many
    startups."""
    missing = facts.details.get("missing_libraries") or []
    return [name for name in missing if not name.startswith(_OPTIONAL)] or missing


def needed_by_another(facts: LogFacts) -> bool:
    """Whether a library was found that belongs to another CUDA version and needs a missing one."""
    needed, missing = facts.details.get("needed_by_library"), missing_libraries(facts)
    return needed is not None and bool(missing) and needed != missing[0]


def wanted_libraries(facts: LogFacts) -> Libraries | None:
    """The CUDA and cuDNN versions that the build requires; None if they are not known."""
    missing = missing_libraries(facts)
    cuda = _first(_RUNTIME, missing)
    if cuda is None:
        cuda = _LAST_BUILT.get(_first(_MAJOR, missing) or "")
    dll = next((found for each in missing if (found := _DLL.match(each))), None)
    if dll is not None:
        cuda = f"{dll[1]}.{dll[2]}"
    cudnn, built = _first(_CUDNN, missing), _built_with(facts)
    if cuda is None and built is not None:
        cuda = built.cuda
    if cuda is None:
        of_cudnn = {"5": "8.0", "6": "8.0", "7": "10.0", "8": "11.2" if facts.on_windows else None}
        cuda = of_cudnn.get(cudnn or "")
    if cuda is None:
        return None
    return Libraries(cuda, cudnn or (built.cudnn if built is not None else None))


def _first(pattern: re.Pattern[str], names: list[str]) -> str | None:
    found = next((match for each in names if (match := pattern.match(each))), None)
    return None if found is None else next(filter(None, found.groups()), None)


def _built_with(facts: LogFacts) -> Libraries | None:
    version = tensorflow_version(facts)
    if version is None:
        return None
    built = (Libraries(cuda, cudnn) for least, cuda, cudnn in _BUILT_WITH if version >= least)
    return next(built, None)
