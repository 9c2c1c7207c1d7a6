"""What PyTorch and JAX need on a simulated GPU in addition to its libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.simcard.installed import find_frameworks
from gpuconf.simcard.libraries import DEVICE_FILES, SONAMES_OF_JAX
from gpuconf.simcard.refusals import LIBRARY, build_refusals

# JAX looks for a GPU if one of these exists (jax/_src/hardware_utils.py).
_GPU_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")


class WheelSupport(NamedTuple):
    """What `Card.environment` adds for PyTorch and JAX; empty if neither is installed.

    ``folder`` contains stand-ins for the libraries that PyTorch imports from.  ``preload`` lists
    libraries for LD_PRELOAD, found on LD_LIBRARY_PATH.  One shows a device file to JAX.  The rest
    are all stand-ins for NVIDIA's libraries, if those are installed as wheels: PyTorch and JAX
    prefer the wheels to LD_LIBRARY_PATH.
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
    """Return what the PyTorch and JAX that ``command`` would import need; build it if needed.

    ``progress`` receives a line before a build.  Raises the errors of `build_refusals`.
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
