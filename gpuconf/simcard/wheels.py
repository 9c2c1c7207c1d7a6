"""What PyTorch and JAX need on a simulated card beyond its own libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.simcard.installed import find_frameworks
from gpuconf.simcard.libraries import DEVICE_FILES, SONAMES_OF_JAX
from gpuconf.simcard.refusals import LIBRARY, build_refusals

# One of them, and JAX looks for a GPU (jax/_src/hardware_utils.py).
_GPU_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")


class WheelSupport(NamedTuple):
    """What `Card.environment` adds for PyTorch and JAX; nothing where neither is there.

    ``folder`` has stand-ins for the libraries that PyTorch imports from.  ``preload`` names
    libraries for LD_PRELOAD, to be found on LD_LIBRARY_PATH: one that shows a device file to JAX,
    and where NVIDIA's libraries are installed as wheels, which PyTorch and JAX take before those on
    LD_LIBRARY_PATH, all that stand in for them.
    """

    folder: Path | None = None
    preload: tuple[str, ...] = ()


NO_SUPPORT = WheelSupport()


def support_for_command(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> WheelSupport:
    """What the PyTorch and the JAX that ``command`` would import need, built if need be.

    ``progress`` is given a line before a build.  Raises what `build_refusals` raises.
    """
    environ = os.environ if environ is None else environ
    found = find_frameworks(command, environ)
    folder = None
    preload: list[str] = []
    if found.torch is not None:
        folder = build_refusals(found.torch, environ=environ, progress=progress)
    if folder is not None and found.has_nvidia_libraries:
        preload += [LIBRARY, *sorted(file.name for file in folder.iterdir() if file.is_symlink())]
    if found.jax is not None and found.has_nvidia_libraries:
        preload += SONAMES_OF_JAX
    if found.jax is not None and not any(map(os.path.exists, _GPU_DEVICES)):
        preload.append(DEVICE_FILES)
    return WheelSupport(folder, tuple(dict.fromkeys(preload)))
