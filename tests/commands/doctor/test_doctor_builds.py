"""How torch and JAX were built, read from the files of their wheels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuconf.backends.torch.environment import options_in
from gpuconf.commands.doctor.facts import CudaLibrary, JaxBuild, TorchBuild
from gpuconf.commands.doctor.gathering.builds import (
    read_jax_build,
    read_torch_build,
    unknown_options,
)
from gpuconf.commands.doctor.variables import table
from tests.commands.doctor.doctor_trees import package
from tests.commands.doctor.test_doctor_package_facts import packages_in
from tests.frameworks import installed
from tests.programs.processes import write_package

_VERSION = {"torch/version.py": "cuda = '12.8'\n"}


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("", []),
        (" a:1 , b ", [("a", "1"), ("b", "")]),
        ("a:[256:1,>:4],b:True", [("a", "[256:1,>:4]"), ("b", "True")]),
        (",,a:b:c,", [("a", "b:c")]),
    ],
)
def test_options_of_torchs_variable(value: str, options: list[tuple[str, str]]) -> None:
    """A comma between brackets separates values of one option."""
    assert options_in(value) == options


def test_an_option_is_unknown_where_no_library_of_torchs_has_its_name(tmp_path: Path) -> None:
    """The whole name: not a part of another, nor in the middle of a message."""
    libraries = {
        "torch/lib/libc10.so": "\0expandable_segments\0set my_option\0",
        "torch/lib/libc10_cuda.so": "\0backend\0",
    }
    write_package(tmp_path, {**_VERSION, **libraries})
    environ = {
        "PYTORCH_CUDA_ALLOC_CONF": "backend:native,expandable_segment:True",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True,my_option:1",
    }
    found = read_torch_build([str(tmp_path)], environ)
    assert found == TorchBuild("12.8", None, ("expandable_segment", "my_option"))


def test_without_torchs_libraries_no_option_is_called_unknown(tmp_path: Path) -> None:
    """As where torch is built from source in another layout."""
    write_package(tmp_path, {**_VERSION, "torch/lib/libc10.so": ""})
    assert read_torch_build([str(tmp_path)], {"PYTORCH_ALLOC_CONF": "a:1"}) == TorchBuild("12.8")


def test_a_jaxlib_that_says_nothing(tmp_path: Path) -> None:
    """Unknown is empty, and one that is not there None."""
    assert read_jax_build([str(tmp_path)]) is None
    write_package(tmp_path, {"jaxlib/xla_client.py": "if allocator not in known:\n"})
    assert read_jax_build([str(tmp_path)]) == JaxBuild()


def test_the_libraries_of_jaxs_plugin(tmp_path: Path) -> None:
    """Those of the plugin's CUDA, as pip puts them; none without a plugin."""
    cufft = "nvidia/cu13/lib/libcufft.so.12"
    write_package(tmp_path, {**package("jax_cuda13_plugin", "0.10.2"), cufft: ""})
    found = packages_in(tmp_path).jax_libraries
    assert found[2] == CudaLibrary("cufft", "libcufft.so.12", str(tmp_path / cufft), "pip")
    assert next(each.soname for each in found if each.path is None) == "libcudart.so.13"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert packages_in(empty).jax_libraries == ()


@pytest.mark.parametrize(
    "line",
    [
        "  if allocator not in ('default', 'platform', 'bfc', 'cuda_async'):\n",  # 0.4.38
        '  allowed_allocators = (\n      "default",\n      "platform",\n      "bfc",\n'
        '      "cuda_async",\n  )\n  if allocator not in allowed_allocators:\n',  # as in 0.12.0.1
    ],
)
def test_the_allocators_of_a_jaxlib(line: str, tmp_path: Path) -> None:
    """They are listed in its source, in the two ways of older and newer releases."""
    client = f"  allocator = os.getenv('XLA_PYTHON_CLIENT_ALLOCATOR', 'default').lower()\n{line}"
    write_package(tmp_path, {"jaxlib/xla_client.py": client})
    build = read_jax_build([str(tmp_path)])
    assert build == JaxBuild(allocators=("default", "platform", "bfc", "cuda_async"))


@pytest.mark.slow
def test_the_wheels_of_the_gate() -> None:
    """torch and jaxlib say what they take; an option of the future is none of theirs."""
    options = (
        "max_split_size_mb:64,garbage_collection_threshold:0.8,expandable_segments:True,"
        "roundup_power2_divisions:4,max_non_split_rounding_mb:20,backend:native,"
        "release_lock_on_cudamalloc:True,per_process_memory_fraction:0.5"
    )
    libraries = installed.folder_of("torch") / "torch" / "lib"
    known = table()["PYTORCH_ALLOC_CONF"]["known"].split()
    assert unknown_options([str(libraries)], known) == ()
    environ = {"PYTORCH_ALLOC_CONF": f"{options},max_split_size:1"}
    torch = read_torch_build([str(installed.folder_of("torch"))], environ)
    assert torch is not None
    assert torch.unknown_options == ("max_split_size",)
    jax = read_jax_build([str(installed.folder_of("jax"))])
    assert jax is not None
    assert jax.allocators == ("default", "platform", "bfc", "cuda_async", "vmm")
    taken = table()["XLA_PYTHON_CLIENT_ALLOCATOR"]["takes"]
    assert [each for each in jax.allocators if not re.fullmatch(taken, each)] == []
    assert sorted(jax.fractions) == ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"]
