"""Libraries for TensorFlow builds from before pip installed CUDA, and the commands.  Pure."""

from __future__ import annotations

import re

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.wording import is_old_stack, tensorflow_version
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
_CUDNN = re.compile(r"libcudnn\.so\.(\d)")
# Since CUDA 10.1, cuBLAS has only the major version; libcudart.so.11.0 serves all of CUDA 11.
_MAJOR = re.compile(r"lib(?:cublas|cudart)\.so\.(1[01])(?:\.0)?$")
_LAST_BUILT = {"10": "10.1", "11": "11.2"}
# Windows names: cudart64_101.dll belongs to CUDA 10.1; from 11 on they omit the minor version.
_DLL = re.compile(r"cu\w{3,8}64_(8|9|10)(\d)\.dll")
_CUDNN_DLL = re.compile(r"cudnn64_([5-7])\.dll")
_PIP_BRINGS_CUDA = (2, 14)


def is_old_build(facts: LogFacts) -> bool:
    """Whether pip does not install CUDA for this TensorFlow: before 2.14, or old by its paths."""
    if facts.framework in ("torch", "jax"):
        return False
    version = tensorflow_version(facts)
    return version < _PIP_BRINGS_CUDA if version is not None else is_old_stack(facts)


def wanted_libraries(facts: LogFacts) -> Proposal | None:
    """CUDA and cuDNN in the versions that the build requires; None if they are not known."""
    missing = facts.details.get("missing_libraries") or []
    named = ", ".join(missing)
    cuda = next((found[1] for each in missing if (found := _RUNTIME.match(each))), None)
    if cuda is None:
        major = next((found[1] for each in missing if (found := _MAJOR.match(each))), None)
        cuda = _LAST_BUILT.get(major or "")
    dll = next((found for each in missing if (found := _DLL.match(each))), None)
    if dll is not None:
        cuda = f"{dll[1]}.{dll[2]}"
    cudnns = (_CUDNN.match(each) or _CUDNN_DLL.match(each) for each in missing)
    cudnn = next((found[1] for found in cudnns if found), None)
    built = _built_with(facts)
    if cuda is None and built is not None:
        cuda = built[0]
    cuda = cuda or ("10.0" if cudnn == "7" else None)
    if cuda is None:
        return None
    cudnn = cudnn or (built[1] if built is not None else None)
    path = "export LD_LIBRARY_PATH=/usr/local/cuda-{}/lib64:$LD_LIBRARY_PATH"
    packages = " ".join(["cudatoolkit=" + cuda, *(["cudnn=" + cudnn] if cudnn else [])])
    return Proposal(
        f"install CUDA {cuda}{f' and cuDNN {cudnn}' if cudnn else ''}, which this build wants",
        f"{'missing: ' + named + '; ' if named else ''}another version does not do, and pip brings "
        "CUDA from TensorFlow 2.14 on; where it is installed, its folder belongs in "
        + ("PATH" if facts.on_windows else "LD_LIBRARY_PATH"),
        "command",
        f"conda install {packages}" + ("" if facts.on_windows else f"\n# or: {path.format(cuda)}"),
    )


def _built_with(facts: LogFacts) -> tuple[str, str] | None:
    version = tensorflow_version(facts)
    if version is None:
        return None
    return next(((cuda, cudnn) for least, cuda, cudnn in _BUILT_WITH if version >= least), None)
