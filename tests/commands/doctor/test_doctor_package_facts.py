"""The probe of packages over folders as pip, conda and NVIDIA fill them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuconf.commands.doctor.facts import Packages, TensorFlowBuild, TorchBuild
from gpuconf.commands.doctor.gathering.libraries import cudnn_version, read_libraries
from gpuconf.commands.doctor.gathering.packages import read_keras_choice, read_packages
from tests.commands.doctor.doctor_trees import library, package, python_with, tensorflow
from tests.machine.cards import standin
from tests.programs.processes import write_package

needs_compiler = pytest.mark.skipif(
    standin.compiler() is None, reason="no C compiler for the stand-in of NVIDIA's library"
)


def packages_in(folder: Path, **environ: str) -> Packages:
    """What a Python finds whose packages are in this folder."""
    interpreter = python_with(str(folder))
    return read_packages(root=str(folder), environ=environ, interpreter=interpreter)


def test_packages_are_read_and_not_imported(tmp_path: Path) -> None:
    """Names as pip writes them, the first folder rules, requirements end with the header."""
    first, second = tmp_path / "first", tmp_path / "second"
    write_package(first, {**tensorflow(), **package("tf_keras", "2.21.0", ["tensorflow<2.22"])})
    write_package(second, {**package("tf_keras", "2.15.0"), "old-1.0-py3.10.egg-info/PKG": ""})
    paths = [str(first), str(second), str(tmp_path / "missing")]
    found = read_packages(root=str(tmp_path), environ={}, interpreter=python_with(*paths))
    assert sorted(found.installed) == ["old", "tensorflow", "tf-keras"]
    assert found.version("tf-keras") == "2.21.0"
    assert found.installed["tf-keras"].requires == ("tensorflow<2.22",)
    assert found.tensorflow is not None
    assert found.tensorflow.compute_capabilities == ("sm_80", "compute_90")
    assert [each.soname for each in found.libraries][-1] == "libcudnn.so.9"
    assert {each.path for each in found.libraries} == {None}


@pytest.mark.parametrize("source", ["", "not python (", "build_info = 3", "build_info = f()"])
def test_a_build_that_cannot_be_read_is_unknown(source: str, tmp_path: Path) -> None:
    """Whatever stands in the file."""
    write_package(tmp_path, {"tensorflow/python/platform/build_info.py": source})
    found = packages_in(tmp_path)
    assert found.tensorflow is None


@pytest.mark.parametrize(
    ("source", "build"),
    [
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", TorchBuild("12.8")),
        ("cuda = None\n", TorchBuild()),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n", TorchBuild(None, "6.4")),
        ("x = 1\n", None),
    ],
)
def test_the_build_of_torch(source: str, build: TorchBuild | None, tmp_path: Path) -> None:
    """From its version.py, with and without an annotation; a build for the CPU is not unknown."""
    write_package(tmp_path, {"torch/version.py": source})
    found = packages_in(tmp_path)
    assert found.torch == build


@needs_compiler
def test_cuda_libraries_are_opened_where_the_loader_finds_them(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH before pip's packages; what does not open says why; cuDNN its version."""
    write_package(tmp_path, {**tensorflow(), "own/libcublas.so.12": "no library"})
    library(tmp_path / "nvidia/cudnn/lib/libcudnn.so.9", cudnn="90300")
    library(tmp_path / "nvidia/cublas/lib/libcublas.so.12")
    found = packages_in(tmp_path, LD_LIBRARY_PATH=str(tmp_path / "own"))
    by_name = {each.name: each for each in found.libraries}
    assert by_name["cudart"].path is None
    assert by_name["cublas"].place == "LD_LIBRARY_PATH"
    assert "file too short" in (by_name["cublas"].problem or "")
    cudnn = by_name["cudnn"]
    assert (cudnn.place, cudnn.problem, cudnn.version) == ("pip", None, "9.3.0")


@needs_compiler
def test_a_library_that_prints_is_no_trouble(tmp_path: Path) -> None:
    """What it writes to stdout, before or after the child's own lines, is passed over."""
    write_package(tmp_path, tensorflow())
    path = tmp_path / "nvidia/cudnn/lib/libcudnn.so.9"
    library(path, cudnn='(__builtin_puts("hello\\n3"), 90300)')
    found = packages_in(tmp_path).libraries
    assert [each.version for each in found if each.path] == ["9.3.0"]


def test_conda_has_its_libraries_in_the_environment(tmp_path: Path) -> None:
    """Only where the environment is conda's: in another, TensorFlow would not look there."""
    write_package(tmp_path, {"env/lib/libcudart.so.12": "", "env/lib/libcudnn.so.9": ""})
    build = TensorFlowBuild(is_cuda=True, cuda_version="12.5.1", cudnn_version="9")

    def places() -> set[str | None]:
        root, prefix = str(tmp_path), str(tmp_path / "env")
        found = read_libraries(build, root=root, environ={}, packages=(), prefix=prefix)
        return {each.place for each in found if each.name in ("cudart", "cudnn")}

    assert places() == {None}
    (tmp_path / "env/conda-meta").mkdir()
    assert places() == {"conda"}


@needs_compiler
def test_a_library_that_ends_the_process_is_a_finding_of_its_own(tmp_path: Path) -> None:
    """The doctor lives on, and names the library at which its child failed."""
    write_package(tmp_path, tensorflow())
    library(tmp_path / "nvidia/cuda_runtime/lib/libcudart.so.12")
    library(tmp_path / "nvidia/cudnn/lib/libcudnn.so.9", cudnn="*(volatile int *)8")
    found = packages_in(tmp_path).libraries
    problems = {each.name: each.problem for each in found if each.path}
    assert problems["cudart"] is None
    assert "it ended the process (-" in (problems["cudnn"] or "")


@pytest.mark.parametrize(
    ("number", "text"), [(8907, "8.9.7"), (90300, "9.3.0"), (91002, "9.10.2"), (None, None)]
)
def test_cudnns_number_as_text(number: int | None, text: str | None) -> None:
    """cuDNN 9 counts otherwise than 8."""
    assert cudnn_version(number) == text


@pytest.mark.parametrize(
    ("environ", "config", "backend", "set_by"),
    [
        ({}, None, "tensorflow", "Keras's default"),
        ({"KERAS_BACKEND": "jax"}, '{"backend": "torch"}', "jax", "KERAS_BACKEND"),
        ({"KERAS_BACKEND": ""}, '{"backend": "torch"}', "torch", "keras.json"),
        ({}, '{"floatx": "float32"}', "tensorflow", "Keras's default"),
        ({}, "{", "tensorflow", "keras.json"),
        ({}, "[]", "tensorflow", "keras.json"),
    ],
)
def test_who_sets_the_keras_backend(
    environ: dict[str, str], config: str | None, backend: str, set_by: str, tmp_path: Path
) -> None:
    """A variable that is not empty, else the file, else nobody; a broken file is told."""
    if config is not None:
        write_package(tmp_path, {".keras/keras.json": config})
    for home in ({"HOME": str(tmp_path)}, {"HOME": "/", "KERAS_HOME": str(tmp_path / ".keras")}):
        found = read_keras_choice({**environ, **home})
        assert (found.backend, os.path.basename(found.set_by)) == (backend, set_by)
        assert bool(found.problem) == (config in ("{", "[]"))
