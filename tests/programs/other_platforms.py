"""A Linux Python without what Python lacks on Windows or macOS; no such machine is needed.

    python -m tests.programs.other_platforms win32 -c "import gpuconf.auto"
    python -m tests.programs.other_platforms darwin -m gpuconf plan
    python -m tests.programs.other_platforms win32:keras train.py

Code written on Linux fails elsewhere at a name that does not exist there: ``os.getuid`` on Windows,
``os.memfd_create`` on macOS.  typeshed, which is part of mypy, has each name's platforms.  So the
names and modules that the other platform lacks are removed, ``sys.platform`` is set, and NVIDIA's
libraries, /proc and /sys cannot be opened.

It does not show paths with backslashes, ``os.name``, other behavior under the same name, extension
modules and other processes: the standard library is Linux's, and a process that the program starts
is an ordinary one.  Packages that have code of their own for Windows, such as Keras, are imported
before the change; they are named after the colon.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import runpy
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

# Modules that lack names elsewhere.  One without any name does not exist there.
_MODULES = (
    *("os", "time", "signal", "select", "socket", "mmap"),
    *("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"),
)
# Parts of the standard library that choose an implementation when they are imported.
_IMPORTED_BEFORE = ("asyncio", "ctypes.util", "multiprocessing.connection", "platform")
_FOLDERS = ("/proc", "/sys")
_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")


def names_in(module: str, platform: str) -> frozenset[str]:
    """The names that ``module`` has on ``platform``, read from its stub in typeshed."""
    found = importlib.util.find_spec("mypy")
    assert found is not None
    assert found.submodule_search_locations is not None
    folder = Path(found.submodule_search_locations[0], "typeshed", "stdlib")
    files = (folder / f"{module}.pyi", folder / module / "__init__.pyi")
    stub = next(file for file in files if file.exists())
    there = SimpleNamespace(platform=platform, version_info=sys.version_info)
    return frozenset(_names(ast.parse(stub.read_text("utf-8")).body, there))


def _names(statements: Iterable[ast.stmt], there: SimpleNamespace) -> Iterator[str]:
    for each in statements:
        match each:
            case ast.If(test, body, orelse):
                code = compile(ast.Expression(test), "<stub>", "eval")
                yield from _names(body if eval(code, {"sys": there}) else orelse, there)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def become(platform: str, after: Iterable[str] = ()) -> None:
    """Import the modules ``after`` and change this process, which cannot be undone."""
    for name in (*_IMPORTED_BEFORE, *after):
        importlib.import_module(name)
    sysconfig.get_config_vars()
    for name in _MODULES:
        there = names_in(name, platform)
        if not there:
            sys.modules[name] = None  # type: ignore[assignment]  # its import then fails
            continue
        module = importlib.import_module(name)
        for absent in names_in(name, "linux") - there:
            vars(module).pop(absent, None)
    importlib.reload(tempfile)  # it looks at once whether os has O_TMPFILE
    if platform == "darwin":  # urllib reads the proxies of macOS from a module of its own
        proxies = ModuleType("_scproxy")
        vars(proxies).update(_get_proxy_settings=dict, _get_proxies=dict)
        sys.modules["_scproxy"] = proxies
    vars(os)["process_cpu_count"] = os.cpu_count  # as Python has it where no affinity is known
    sys.addaudithook(_refuse)
    sys.platform = platform


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Raise what the system would for a library or folder that only Linux has."""
    name = arguments[0] if arguments else None
    if not isinstance(name, str):
        return
    if event == "ctypes.dlopen" and name.startswith(_LIBRARIES):
        raise OSError(f"{name}: no such file")
    if event in ("open", "os.listdir", "os.scandir") and name.startswith(_FOLDERS):
        raise FileNotFoundError(2, "No such file or directory", name)


def _run(kind: str, rest: list[str]) -> None:
    """Do as ``python kind rest...`` does."""
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *rest]
        sys.path[0] = str(Path(kind).resolve().parent)
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    _, named, *words = sys.argv
    platform, _, after = named.partition(":")
    become(platform, filter(None, after.split(",")))
    _run(words[0], words[1:])
