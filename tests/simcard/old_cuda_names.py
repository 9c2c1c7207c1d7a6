"""Write ``native/old_cuda/names.txt`` from the wheels that need it.

``python -m tests.simcard.old_cuda_names FOLDER…``, each the folder of an installed
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

NAMES = NATIVE / "old_cuda" / "names.txt"
_WANTED = re.compile(r"(?:cublas|cudnn|cufft|curand|cusolver)\w+")
_DEFINED = re.compile(r"^EXPORT [\w *]+?\b(\w+)\(", re.MULTILINE)
_HEAD = """\
# Functions of CUDA's math libraries and cuDNN that TensorFlow 1.4 to 1.13 cannot be loaded
# without, and that our own sources do not define.  Written by tests/simcard/old_cuda_names.py.
"""


def undefined_names(tensorflow: Path) -> set[str]:
    """The functions of those libraries that the libraries below ``tensorflow`` request."""
    command = ["nm", "-D", "--undefined-only", *map(str, tensorflow.rglob("*.so*"))]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    names = (line.split()[-1].partition("@")[0] for line in listed.splitlines() if " U " in line)
    return {name for name in names if _WANTED.fullmatch(name)}


def defined_names() -> set[str]:
    """The functions of those libraries that are written by hand."""
    return set(_DEFINED.findall((NATIVE / "cudnn.c").read_text(encoding="utf-8")))


def main(folders: list[str]) -> None:
    """Write the file; what several wheels request stands there once."""
    names = {name for folder in folders for name in undefined_names(Path(folder))}
    listed = textwrap.fill(" ".join(sorted(names - defined_names())), 100)
    NAMES.write_text(f"{_HEAD}{listed}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
