"""The builds of the installed frameworks, read from files in their wheels; nothing is imported.

TensorFlow: tensorflow/python/platform/build_info.py, which ``tf.sysconfig.get_build_info`` returns.
torch: torch/version.py, and its libraries for the names of allocator options.  JAX:
jaxlib/xla_client.py, for the values that its GPU client accepts.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuconf.backends.torch.environment import OPTION_VARIABLES, options_in
from gpuconf.commands.doctor.facts import JaxBuild, TensorFlowBuild, TorchBuild
from gpuconf.commands.doctor.gathering.files import read_text

# Releases of torch differ in which of the two contains an option's name (2.9.1 and 2.15.0).
_TORCH_LIBRARIES = ("libc10.so", "libc10_cuda.so")
_JAX_FRACTION = re.compile(r"\bXLA_(?:PYTHON_)?CLIENT_MEM_FRACTION\b")
# generate_pjrt_gpu_plugin_options: `if allocator not in (…):` in jaxlib 0.4.38 and 0.10.2,
# `allowed_allocators = (…)` in 0.11.2 and 0.12.0.1.
_JAX_ALLOCATORS = re.compile(r"allocators? (?:=|not in) \(([^)]*)\)")


def read_tensorflow_build(folders: Sequence[str]) -> TensorFlowBuild | None:
    """The build of the first TensorFlow in ``folders``; None if it is not found."""
    text = _first_text(folders, "tensorflow/python/platform/build_info.py")
    value = _assigned(text, "build_info")
    if isinstance(value, ast.Call) and value.args:  # collections.OrderedDict([(…, …), …])
        value = value.args[0]
    pairs = _literal(value)
    if not isinstance(pairs, list):
        return None
    info: dict[str, Any] = dict(pairs)
    return TensorFlowBuild(
        is_cuda=bool(info.get("is_cuda_build")),
        is_rocm=bool(info.get("is_rocm_build")),
        cuda_version=info.get("cuda_version"),
        cudnn_version=info.get("cudnn_version"),
        compute_capabilities=tuple(info.get("cuda_compute_capabilities", ())),
    )


def read_torch_build(folders: Sequence[str], environ: Mapping[str, str]) -> TorchBuild | None:
    """The build of the first torch in ``folders``; None if there is none, or it is unknown.

    ``hip`` is the version of ROCm's runtime; None in builds for CUDA and the CPU.
    """
    text = _first_text(folders, "torch/version.py")
    if _assigned(text, "cuda") is None:
        return None
    cuda, hip = (_literal(_assigned(text, name)) for name in ("cuda", "hip"))
    return TorchBuild(
        cuda if isinstance(cuda, str) else None,
        hip if isinstance(hip, str) else None,
        _unknown_options(folders, environ),
    )


def _unknown_options(folders: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The options in torch's variables whose names do not occur in its libraries."""
    values = (environ.get(variable, "") for variable in OPTION_VARIABLES)
    names = dict.fromkeys(name for value in values for name, _ in options_in(value))
    return unknown_options([os.path.join(folder, "torch", "lib") for folder in folders], names)


def unknown_options(folders: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``names`` that do not occur in torch's libraries, in the first of
    ``folders``.

    If its variables contain one of these, torch cannot initialize CUDA.  Empty if the libraries
    cannot be read.
    """
    names = tuple(names)
    found = [_first_bytes(folders, library) for library in _TORCH_LIBRARIES] if names else []
    libraries = [each for each in found if each is not None]
    if len(libraries) < len(_TORCH_LIBRARIES):
        return ()
    return tuple(name for name in names if not any(_has_text(each, name) for each in libraries))


def _has_text(library: bytes, text: str) -> bool:
    """Whether the library contains ``text`` as a C string."""
    return re.search(rb"(?<![\w ])%s\0" % re.escape(text.encode()), library) is not None


def _first_bytes(folders: Sequence[str], name: str) -> bytes | None:
    there = (file for file in (Path(folder, name) for folder in folders) if file.is_file())
    with suppress(OSError, StopIteration):
        return next(there).read_bytes()
    return None


def read_jax_build(folders: Sequence[str]) -> JaxBuild | None:
    """The values that the first jaxlib in ``folders`` accepts; None if unknown."""
    text = _first_text(folders, "jaxlib/xla_client.py")
    if text is None:
        return None
    listed = _JAX_ALLOCATORS.search(text)
    return JaxBuild(
        fractions=tuple(dict.fromkeys(_JAX_FRACTION.findall(text))),
        allocators=tuple(re.findall(r"['\"](\w+)['\"]", listed[1])) if listed else (),
    )


def _first_text(folders: Sequence[str], path: str) -> str | None:
    for folder in folders:
        text = read_text(os.path.join(folder, path))
        if text is not None:
            return text
    return None


def _assigned(source: str | None, name: str) -> ast.expr | None:
    """The value that ``source`` assigns to ``name`` at top level."""
    try:
        body = ast.parse(source or "").body
    except (SyntaxError, ValueError):
        return None
    for node in reversed(body):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.value  # type: ignore[attr-defined,no-any-return]  # both kinds have one
    return None


def _literal(node: ast.expr | None) -> object:
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None
