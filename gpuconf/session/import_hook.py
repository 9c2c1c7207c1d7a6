"""Run a function right after a module is imported, before the importer receives it.

``on_import("tensorflow", hook)`` calls ``hook(module)`` once the module's own code has run.  This
covers ``from tensorflow.python.x import y`` and Keras's lazy imports, because all of them import
the top package first. If the module is already imported, the hook is called at once. If another
thread is importing the module, it is left alone, and :func:`unmet` lists it.

If a hook raises, the import raises, and so does every later import of that module: it calls the
hook again, without running the module's code again (C++ libraries do not survive that).  A
submodule that the first import has loaded can still be imported, because Python looks for it in
``sys.modules`` first.  So a hook that sets limits must do that before it refuses the import.

The hook is called outside any of our locks, and the module's real loader is back in place before
its code runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import Any, NamedTuple

from gpuconf.errors import with_short_tracebacks

Hook = Callable[[ModuleType], None]


class _Hooks(NamedTuple):
    """The functions called for a module, before and after its code runs."""

    after: Hook
    before: Callable[[], None]


class _HookedLoader:
    """Replaces a module's loader for one import: runs the code, then the hook."""

    def __init__(self, loader: Any, hooks: ImportHooks) -> None:
        self._loader = loader
        self._hooks = hooks

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._hooks.refused.get(spec.name) or self._loader.create_module(spec)

    @with_short_tracebacks
    def exec_module(self, module: ModuleType) -> None:
        name, spec = module.__name__, module.__spec__
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._hooks.run_before(name)
        if self._hooks.refused.get(name) is module:  # its code has run
            del self._hooks.refused[name]
        else:
            self._hooks.running.add(name)
            try:
                self._loader.exec_module(module)
            finally:
                self._hooks.running.discard(name)
        shown = sys.modules.get(name, module)
        try:
            self._hooks.run(name, shown)
        except BaseException:
            # importlib now removes the module from sys.modules, unless this is a reload; the next
            # import goes through the finder and the hook again.
            if getattr(spec, "_initializing", False):
                self._hooks.refused[name] = shown
            raise

    def __getattr__(self, name: str) -> object:
        # get_resource_reader, get_source, is_package, …: everything the real loader has.
        if name == "_loader":  # not set yet, for example while being copied
            raise AttributeError(name)
        return getattr(self._loader, name)


class ImportHooks:
    """The finder on ``sys.meta_path``, and the hooks by module name.

    ``running`` are the modules whose code is running now, before their hook, ``met`` those whose
    hook was called, and ``refused`` those that a hook has refused, kept for the next import of
    them.
    """

    def __init__(self) -> None:
        self._hooks: dict[str, _Hooks] = {}
        self._finding: set[tuple[str, int]] = set()  # name and thread: other finders may ask us
        self.running: set[str] = set()
        self.met: set[str] = set()
        self.refused: dict[str, ModuleType] = {}

    def set(self, name: str, hook: Hook, before: Callable[[], None] = lambda: None) -> None:
        self._hooks[name] = _Hooks(hook, before)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def drop(self, name: str) -> None:
        self._hooks.pop(name, None)

    def run_before(self, name: str) -> None:
        hooks = self._hooks.get(name)
        if hooks is not None:
            hooks.before()

    def run(self, name: str, module: ModuleType) -> None:
        hooks = self._hooks.get(name)
        if hooks is None:
            return
        self.met.add(name)
        try:
            hooks.after(module)
        except BaseException:
            self.met.discard(name)
            raise

    def unmet(self) -> list[str]:
        """Return the hooked modules that are fully or partly imported and whose hook was not
        called.
        """
        return [
            name
            for name in self._hooks
            if name in sys.modules and name not in self.met and name not in self.running
        ]

    def keep_first(self, name: str) -> None:
        """If ``name`` is hooked and about to be imported, make sure this finder is consulted first.

        Insert before removing: another thread may be iterating over the list and must not miss a
        finder.
        """
        if name not in self._hooks and name.partition(".")[0] not in self._hooks:
            return
        path = sys.meta_path
        if not path or path[0] is self or self not in path:
            return
        path.insert(0, self)
        del path[path.index(self, 1)]

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        key, ours = (name, get_ident()), name in self._hooks or name in self.refused
        if not ours or key in self._finding:
            return None
        self._finding.add(key)
        try:
            spec = self._find_elsewhere(name, path, target)
        finally:
            self._finding.discard(key)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None  # a namespace package, or a loader of Python 2's days
        spec.loader = _HookedLoader(spec.loader, self)  # type: ignore[assignment]
        return spec

    def _find_elsewhere(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            spec = None if finder is self or find_spec is None else find_spec(name, path, target)
            if spec is not None:
                return spec  # type: ignore[no-any-return]
        return None


hooks = ImportHooks()


def on_import(name: str, hook: Hook, *, before: Callable[[], None] = lambda: None) -> None:
    """Call ``hook(module)`` after the module ``name`` is imported, or now if it already has been.

    ``before`` is called right before the module's code runs. A second call for the same name
    replaces both functions. The import raises whatever these functions raise.
    """
    hooks.set(name, hook, before)
    module = sys.modules.get(name)
    if module is not None and name not in hooks.running and is_whole(name):
        before()
        hooks.run(name, module)


def is_whole(name: str) -> bool:
    """Whether the module is imported and its code has run to the end."""
    module = sys.modules.get(name)
    if name in hooks.met:  # the import may still be in progress, since the hook is part of it
        return module is not None
    # LazyLoader modules run their code on the first attribute access.
    if module is None or type(module).__name__ == "_LazyModule":
        return False
    return not getattr(getattr(module, "__spec__", None), "_initializing", False)
