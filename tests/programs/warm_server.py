"""A process that has imported TensorFlow and Keras once, and forks itself for each program.

`tests.programs.warm` starts it, on the simulated GPU's libraries, and says which programs may run
here.  In a forked process no module of TensorFlow or Keras is in ``sys.modules``.  ``import
tensorflow`` asks the finders of ``sys.meta_path`` as ever, loaders are wrapped, gpuconf's hooks
run; only the code of the package is not executed again: its modules, imported before the fork, are
put back.

The program is a child of the process that asked: two forks, and the process between them ends while
the asking one is a subreaper, prctl(2).  A program whose own children shall run warm begins with
one more fork, their server.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.abc
import importlib.machinery
import json
import os
import runpy
import signal
import socket
import sys
import time
import warnings
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

_FAMILIES = ("tensorflow", "keras")
_PLUGIN_VARIABLE = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
_MOST_DESCRIPTORS = 16
_ABOVE_DESCRIPTORS = 200  # that a program is given, and those on their way there
_imported: dict[str, dict[str, ModuleType]] = {}


class _PutBack(importlib.abc.Loader):
    """Puts the modules of one family back where its code would run."""

    def __init__(self, family: str) -> None:
        self._family = family

    def create_module(self, _spec: object) -> ModuleType:
        """Return the package that was imported before the fork."""
        return _imported[self._family][self._family]

    def exec_module(self, _module: object) -> None:
        """Do what the package's code would do that others can see."""
        if self._family == "keras":  # Keras's own code imports it
            import tensorflow  # noqa: F401
        for name, module in _imported[self._family].items():
            sys.modules.setdefault(name, module)
        plugin = os.environ.get(_PLUGIN_VARIABLE)
        if self._family == "tensorflow" and plugin:  # as tensorflow/__init__.py at its end
            load: Any = sys.modules["tensorflow.python.framework.load_library"]
            load.load_pluggable_device_library(plugin)


class _Finder:
    """Finds the packages that were imported before the fork, before Python's own finder would."""

    @staticmethod
    def find_spec(
        name: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec like the real one, but for its loader."""
        if name not in _imported or name in sys.modules:
            return None
        real = _imported[name][name].__spec__
        assert real is not None
        spec = importlib.machinery.ModuleSpec(
            name, _PutBack(name), origin=real.origin, is_package=True
        )
        spec.submodule_search_locations = list(real.submodule_search_locations or ())
        spec.has_location = True
        return spec


def _serve(asker: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request, until the asking process ends; return in a forked process only."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(asker, 1 << 20, _MOST_DESCRIPTORS)
        if not message:
            os._exit(0)
        between = os.fork()
        if between == 0:
            program = os.fork()
            if program == 0:
                asker.close()
                return json.loads(message), descriptors
            asker.sendall(f"{program}\n".encode())
            os._exit(0)
        os.waitpid(between, 0)
        asker.sendall(b".")  # from now on the program is the asking process's own child
        for descriptor in descriptors:
            os.close(descriptor)


def _serve_children(received: list[int]) -> int:
    """Fork a server for what the program will start; return the socket to it in the program."""
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return fcntl.fcntl(ours.detach(), fcntl.F_DUPFD_CLOEXEC, _ABOVE_DESCRIPTORS)
    ours.close()
    for each in received:
        os.close(each)
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    _program(theirs)
    sys.exit()


def _become(request: dict[str, Any], received: list[int]) -> None:
    """Take on what a process gets from the one that starts it."""
    while os.getppid() != request["parent"]:
        time.sleep(0.001)
    if request["new_session"]:
        os.setsid()
    # Out of the way of the numbers that the program shall have them under.
    moved = [os.dup2(each, 100 + place) for place, each in enumerate(received)]
    for each in received:
        os.close(each)
    for number, each in zip(request["descriptors"], moved, strict=True):
        os.dup2(each, number, inheritable=True)
        os.close(each)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        buffering = 1 if name == "stderr" or os.isatty(number) else -1
        stream = os.fdopen(number, mode, buffering, "utf-8", errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    _restore_imports(request)


def _restore_imports(request: dict[str, Any]) -> None:
    """``sys.path``, the warnings, and the modules as a fresh interpreter has them."""
    first = os.path.dirname(request["argv"][0])
    if request["module"] is not None:
        first = os.getcwd()
    paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [first, *dict.fromkeys([*paths, *(each for each in sys.path if each != first)])]
    sys.argv[:] = request["argv"]
    sys.warnoptions[:] = request["warnings"]
    for action in request["warnings"]:
        warnings.simplefilter(action)
    for family in _imported.values():
        for name in family:
            sys.modules.pop(name, None)
    finders = [each for each in sys.meta_path if each.__module__ != "sitecustomize"]
    finders.insert(finders.index(PathFinder), _Finder)
    sys.meta_path[:] = finders
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")  # that of the request's PYTHONPATH
    # That of `lean_tensorflow` would run the code.
    finders = [each for each in sys.meta_path if getattr(each, "__name__", "") != "_Uncollected"]
    sys.meta_path[:] = finders


def _run(request: dict[str, Any]) -> None:
    """Run the program as Python does, tracebacks included."""
    globals()["__name__"] = "warm_server"  # the frames above the program are not its own
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if request["module"] is not None:
        runpy._run_module_as_main(request["module"])  # type: ignore[attr-defined]
        return
    if request["code"] is None:
        path = main.__file__ = request["argv"][0]
        with open(path, "rb") as file:
            source: str | bytes = file.read()
    else:
        path, source = "<string>", request["code"]
    try:
        exec(compile(source, path, "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # not this frame
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1 if not isinstance(error, KeyboardInterrupt) else 130)


def _program(asker: socket.socket) -> None:
    """Serve, and in a forked process become the program."""
    request, descriptors = _serve(asker)
    children = _serve_children(descriptors) if request["shares"] else None
    _become(request, descriptors)
    if children is not None:
        from tests.programs import warm

        warm.share_imports(children)
    _run(request)


def main() -> None:
    """Import, then serve."""
    del sys.path[0]  # this file's folder
    asker = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest; it closes the socket
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    for family in _FAMILIES:
        _imported[family] = {
            name: module for name, module in sys.modules.items() if name.split(".")[0] == family
        }
    gc.collect()
    gc.freeze()
    asker.sendall(b"ready\n")
    _program(asker)


main()
