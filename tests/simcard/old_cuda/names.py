"""Write ``refusals.c`` from the wheels that need it.

``python -m tests.simcard.old_cuda.names FOLDER…``, each the folder of an installed
``tensorflow-gpu`` (1.4 to 1.13; later ones load CUDA's libraries by themselves, and do without
what is missing).  Needs ``nm``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

from gpuconf.simcard.libraries import NATIVE
from tests.simcard.old_cuda import REFUSALS

_WANTED = re.compile(r"(?:cublas|cudnn|cufft|curand|cusolver)\w+")
_DEFINED = re.compile(r"^EXPORT [\w *]+?\b(\w+)\(", re.MULTILINE)
_REFUSED = re.compile(r"REFUSE\((\w+)\)")
_HEAD = """\
/* The math libraries of CUDA 8 to 11 and cuDNN 6 and 7: every function that TensorFlow 1.4 to 1.13
 * must find before it can be loaded, and that our own sources do not define.  None computes: each
 * says its name when first called.  Written by names.py. */
#include "refusals.h"

"""


def refused_names() -> list[str]:
    """The functions that ``refusals.c`` defines."""
    return _REFUSED.findall(REFUSALS.read_text(encoding="utf-8"))


def undefined_names(tensorflow: Path) -> set[str]:
    """The functions of those libraries that the libraries below ``tensorflow`` request."""
    command = ["nm", "-D", "--undefined-only", *map(str, tensorflow.rglob("*.so*"))]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    names = (line.split()[-1].partition("@")[0] for line in listed.splitlines() if " U " in line)
    return {name for name in names if _WANTED.fullmatch(name)}


def defined_names() -> set[str]:
    """The functions of those libraries that are written by hand."""
    return set(_DEFINED.findall((NATIVE / "cudnn.c").read_text(encoding="utf-8")))


def write(names: set[str]) -> None:
    """Write the file with these names."""
    listed = textwrap.fill(" ".join(f"REFUSE({name})" for name in sorted(names)), 100)
    REFUSALS.write_text(f"{_HEAD}{listed}\n", encoding="utf-8")


def main(folders: list[str]) -> None:
    """Write the file; what several wheels request is in it once."""
    names = {name for folder in folders for name in undefined_names(Path(folder))}
    write(names - defined_names())


if __name__ == "__main__":
    main(sys.argv[1:])
