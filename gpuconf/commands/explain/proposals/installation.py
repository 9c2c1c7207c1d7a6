"""Libraries, driver, card and compiler: what to install, and how to check."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.old_builds import is_old_build, wanted_libraries
from gpuconf.commands.explain.proposals.wording import tensorflow_version
from gpuconf.support.failures.reading import LogFacts

_WITH_CUDA = "pip install 'tensorflow[and-cuda]'"
_LOOK = Proposal(
    "see what is wrong with this machine",
    "driver, cards, packages and libraries, each with the command that fixes it",
    "command",
    "gpuconf doctor",
)
_TORCH = (
    "pip install --force-reinstall torch   # with the --index-url that pytorch.org shows for a CUDA"
)
_REINSTALL = {"jax": "pip install --upgrade 'jax[cuda12]'", "torch": _TORCH}
_WANTED_FILES = Proposal(
    "for TensorFlow before 2.14: the CUDA and cuDNN that it was built with",
    "",
    "command",
    "python -c 'import tensorflow as tf; print(tf.sysconfig.get_build_info())'",
)
_WITH_GPU = Proposal(
    "install the framework with CUDA",
    "the plain package of some frameworks computes on the CPU alone",
    "command",
    "",
)


def _reinstall(facts: LogFacts) -> str:
    return _REINSTALL.get(facts.framework or "", _WITH_CUDA)


def for_libraries(facts: LogFacts) -> Iterator[Proposal]:
    """Install matching versions with pip; for old builds, the versions in the log."""
    missing = facts.details.get("missing_libraries")
    named = f" ({', '.join(missing)})" if isinstance(missing, list) else ""
    version = tensorflow_version(facts)
    if facts.on_windows and facts.framework not in _REINSTALL:
        if (wanted := wanted_libraries(facts)) is not None:
            yield wanted
        yield Proposal(
            "on Windows: TensorFlow in WSL2, or TensorFlow 2.10",
            "natively on Windows, TensorFlow computes on GPUs up to 2.10 alone",
            "command",
            "pip install 'tensorflow<2.11'",
        )
        yield _WANTED_FILES._replace(reason=f"the missing files{named} end in their versions")
        return
    needed = facts.details.get("needed_by_library")
    is_other = needed is not None and isinstance(missing, list) and needed != missing[0]
    if needed is not None and is_other:
        yield _of_one_cuda(needed)
    old = is_old_build(facts)
    wanted = wanted_libraries(facts) if old and not is_other else None
    if wanted is not None:
        yield wanted
    elif not old:
        yield Proposal(
            "install the CUDA libraries with the framework",
            f"pip brings them{named} in the versions that this build wants; the driver is all "
            "that must be on the system",
            "command",
            _reinstall(facts),
        )
    if wanted is None and facts.framework not in _REINSTALL and (version is None or old):
        yield _WANTED_FILES._replace(reason=f"the missing files{named} end in their versions")
    yield _LOOK


def _of_one_cuda(needed: str) -> Proposal:
    """For a library that was found but belongs to another CUDA version."""
    package = re.sub(r"^lib|\.so.{0,20}$", "", needed).lower()
    major = needed.rpartition(".")[2]
    return Proposal(
        f"take all libraries from one CUDA: {needed} is missing, which one that was found needs",
        f"a library of CUDA {major} is among those of another CUDA; remove it, or give it what "
        "it needs",
        "command",
        f"pip install nvidia-{package}-cu{major}   # its folder belongs in LD_LIBRARY_PATH",
    )


_RESTART = Proposal(
    "restart the machine",
    "the driver was updated and the old kernel module is still loaded",
    "command",
    "sudo reboot",
)
_UPDATE_DRIVER = Proposal(
    "update the NVIDIA driver",
    "it is older than the CUDA libraries want; the other way is an older framework",
    "command",
    "nvidia-smi --query-gpu=name,driver_version --format=csv",
)


def for_driver(facts: LogFacts) -> Iterator[Proposal]:
    """Fix cuDNN or the driver, or restart after a driver update."""
    details = facts.details
    if "allocator_asked_for" in details:
        yield Proposal(
            "go back to TensorFlow's own allocator",
            f"{details['allocator_asked_for']} is not available with this card, driver and CUDA",
            "command",
            "unset TF_GPU_ALLOCATOR",
        )
    if "compiled_cudnn" in details:
        if is_old_build(facts):
            yield _which_cudnn(facts)
            yield _LOOK
            return
        yield Proposal(
            f"let pip bring cuDNN {details['compiled_cudnn']} or a newer one of its major version",
            f"cuDNN {details.get('loaded_cudnn', 'of the system')} was found first, most often "
            "through LD_LIBRARY_PATH or another package",
            "command",
            f"unset LD_LIBRARY_PATH; {_reinstall(facts)}",
        )
    elif "kernel_driver" in details or "versions_differ" in details:
        yield _RESTART
    else:
        yield _UPDATE_DRIVER
    yield _LOOK


def _which_cudnn(facts: LogFacts) -> Proposal:
    wanted = facts.details.get("compiled_cudnn", "")
    return Proposal(
        f"find the cuDNN {facts.details.get('loaded_cudnn', 'of the system')} that is loaded first",
        f"remove it, or put the folder of {wanted} before it in LD_LIBRARY_PATH; then a new shell",
        "command",
        "ldconfig -p | grep libcudnn; echo $LD_LIBRARY_PATH",
    )


def for_capability(facts: LogFacts) -> Iterator[Proposal]:
    """A newer build for a newer card, an older one for an older card."""
    card, least = facts.card, facts.details.get("minimum_capability")
    capability = card.compute_capability if card is not None else None
    major = int(capability.split(".")[0]) if capability else None
    if major is None or major >= 7:
        yield Proposal(
            "a newer build of the framework",
            "a build knows the cards of its time; this one has no code for "
            f"{f'compute capability {capability}' if capability else 'this card'}",
            "command",
            _reinstall(facts) if facts.framework in _REINSTALL else f"{_WITH_CUDA} --upgrade",
        )
    if major is None or major < 7:
        wanted = f" and this build wants {least}" if least else ""
        yield Proposal(
            "a build that was compiled for this card: the official wheel, or an older version",
            f"the card is of compute capability {capability or 'unknown'}{wanted}; each "
            "build has code for some cards alone, and new ones drop the oldest",
            "command",
            "nvidia-smi --query-gpu=name,compute_cap --format=csv",
        )
    yield _LOOK


_UNHIDE = Proposal(
    "unset CUDA_VISIBLE_DEVICES, which hides all cards",
    "the log says that it is set so; a card is named by its number, 0 for the first, without a "
    "dollar before it",
    "command",
    "unset CUDA_VISIBLE_DEVICES",
)
_DOCKERS_TOOLKIT = Proposal(
    "install NVIDIA's Container Toolkit on the host",
    "--gpus was given, and Docker has nothing that can give GPUs to containers",
    "command",
    "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
)
_WHICH_CARDS = Proposal(
    "see how many cards there are, and which take processes",
    "the script names a card that does not exist, or one that is in exclusive mode and taken",
    "command",
    "nvidia-smi --query-gpu=index,name,compute_mode --format=csv",
)
_MAP_LOCATION = Proposal(
    "load the file onto the CPU, if none of this needs a GPU",
    "its tensors were saved on a GPU, and go back there unless another place is named",
    "code",
    "state = torch.load(path, map_location='cpu')",
)
_ASK_THE_DRIVER = Proposal(
    "see whether the driver sees a card",
    "without an answer here the driver is not installed or not loaded, or the container was "
    "started without --gpus all",
    "command",
    "nvidia-smi",
)
_WHAT_HIDES_IT = Proposal(
    "see what hides the card",
    "CUDA_VISIBLE_DEVICES, a package without CUDA, a driver that does not go with it",
    "command",
    "gpuconf doctor",
)


def for_no_device(facts: LogFacts) -> Iterator[Proposal]:
    """Check the driver, CUDA_VISIBLE_DEVICES, the container, and for a CPU-only package."""
    details = facts.details
    with_gpu = _WITH_GPU._replace(paste=_reinstall(facts))
    if "hidden_by" in details or "hides-cards" in facts.signs:
        yield _UNHIDE
        yield _WHAT_HIDES_IT
        return
    if "map_location" in details:
        yield _MAP_LOCATION
    if "container" in details:
        yield _DOCKERS_TOOLKIT
        return
    if "device_refused" in details:
        yield _WHICH_CARDS
        return
    if "cpu_build" in details:
        yield with_gpu
    yield _ASK_THE_DRIVER
    yield _WHAT_HIDES_IT
    if "cpu_build" not in details:
        yield with_gpu


_SYSTEMS_COMPILER = Proposal(
    "show XLA where CUDA's compiler files are",
    "the folder must hold bin/ptxas and nvvm/libdevice",
    "command",
    "export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda",
)
_OLD_COMPILER = Proposal(
    "or install them, for TensorFlow before 2.14",
    "pip brings CUDA from 2.14 on; the compiler alone is a package of its own",
    "command",
    "conda install -c nvidia cuda-nvcc",
)


def for_toolchain(facts: LogFacts) -> Iterator[Proposal]:
    """Compiler files from pip or from the system, or no XLA."""
    old = is_old_build(facts)
    if old:
        yield _SYSTEMS_COMPILER
    yield (
        _OLD_COMPILER
        if old
        else Proposal(
            "install CUDA's compiler files with the framework",
            "ptxas, nvlink and libdevice come in the package nvidia-cuda-nvcc",
            "command",
            _reinstall(facts),
        )
    )
    if not old:
        yield _SYSTEMS_COMPILER._replace(title="or show XLA those of the system")
    if facts.framework == "tensorflow" and "keras" in facts.signs:
        yield Proposal(
            "or let Keras do without XLA",
            'Keras 3 compiles with XLA on a GPU by default (jit_compile="auto")',
            "code",
            "model.compile(optimizer, loss, jit_compile=False)",
        )


def for_gpu_only(_facts: LogFacts) -> Iterator[Proposal]:
    """Use a GPU, or a data layout that the CPU supports."""
    yield Proposal(
        "see why no GPU is used",
        "the operation ran on the CPU, or on a simulated card, which computes there",
        "command",
        "gpuconf doctor",
    )
    yield Proposal(
        "put the channels last",
        "the CPU computes pictures in that order only",
        "code",
        'keras.config.set_image_data_format("channels_last")  # (height, width, channels)',
    )
