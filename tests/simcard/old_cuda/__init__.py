"""CUDA 8.0 to 11 on the same simulated GPU, for TensorFlow 1.4 to 2.14, which require them.

For each CUDA release, a runtime library contains what CUDA 12 dropped or changed; it is linked to
``libcudart.so.12`` for the rest.  The math libraries are all built from one source of refusals:
TensorFlow up to 1.13 does not load unless some 350 functions exist; later ones fail when they call
a missing function.  The driver has the tables that a runtime built into TensorFlow asks for.

Memory is simulated, but computing is not.  Allocations, copies, constants, variables initialized
from them, ``tf.zeros``, ``tf.ones`` and ``tf.fill`` work; everything else fails and is never
skipped, so computations belong under ``tf.device('/cpu:0')``.  Error numbers are from CUDA 12.

Tried with TensorFlow 1.4.1, 1.5.1, 1.8.0, 1.13.2, 1.14.0, 1.15.5, 2.0.4, 2.1.4, 2.2.3, 2.3.4,
2.4.4, 2.8.4, 2.12.1 and 2.14.1.  TensorFlow 1.12 fails if ``/sys`` has no NUMA node for the GPU
(fixed in 1.13: https://github.com/tensorflow/tensorflow/pull/24142).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gpuconf.simcard import Card, CardSpec, build_libraries, simulated_card
from gpuconf.simcard.libraries import LIBRARIES, NATIVE, Library

_HERE = Path(__file__).parent
REFUSALS = _HERE / "refusals.c"


class Release(NamedTuple):
    """A CUDA release: the number and name of its runtime, and the sonames of its math libraries."""

    number: int
    runtime: str
    math: tuple[str, ...]

    @property
    def soname(self) -> str:
        """The soname of the runtime."""
        return f"libcudart.so.{self.runtime}"


def _math(version: str, *names: str) -> tuple[str, ...]:
    return tuple(f"lib{name}.so.{version}" for name in names)


_ALL = ("cublas", "cufft", "curand", "cusolver", "cusparse")
RELEASES = (
    Release(8000, "8.0", _math("8.0", *_ALL)),  # TensorFlow 1.4
    Release(9000, "9.0", _math("9.0", *_ALL)),  # 1.5 to 1.12
    Release(10000, "10.0", _math("10.0", *_ALL)),  # 1.13 to 2.0
    Release(10010, "10.1", _math("10", *_ALL)),  # 2.1 to 2.3
    # 2.4 to 2.14; its other libraries have the sonames of 10.1 or of CUDA 12.
    Release(11000, "11.0", _math("11", "cublas", "cublasLt", "cusparse")),
)
MATH = tuple(soname for release in RELEASES for soname in release.math)
CUDNN_VERSIONS = {"libcudnn.so.6": 6021, "libcudnn.so.7": 7605}

_INCLUDE = f"-I{NATIVE}"
_DRIVER, *_OTHERS = LIBRARIES
OLD_LIBRARIES = (
    _DRIVER._replace(sources=(*_DRIVER.sources, str(_HERE / "driver.c")), flags=(_INCLUDE,)),
    *_OTHERS,
    *(
        Library(
            release.soname,
            (str(_HERE / "runtime.c"),),
            (f"-DRUNTIME_VERSION={release.number}", _INCLUDE),
            (_DRIVER.soname, "libcudart.so.12"),
        )
        for release in RELEASES
    ),
    *(
        Library(soname, ("cudnn.c", "cudnn_backend.c"), (f"-DCUDNN_VERSION={version}",))
        for soname, version in CUDNN_VERSIONS.items()
    ),
    *(
        Library(soname, (str(REFUSALS),), ("-O0", "-DCUDNN_VERSION=7605", _INCLUDE))
        for soname in MATH
    ),
)


@contextmanager
def old_card(spec: CardSpec) -> Iterator[Card]:
    """A simulated GPU that also has the libraries of old CUDA releases."""
    with simulated_card(spec) as card:
        yield Card(card.path, libraries=build_libraries(libraries=OLD_LIBRARIES))
