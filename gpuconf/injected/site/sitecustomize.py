"""Runs when Python starts in each program of a `gpuconf run`, and watches for framework imports.

Python finds it because this folder is first on PYTHONPATH.  It contains only what every Python
process needs; the rest is loaded when a framework is imported.  An error here ends the process,
because `site` would only report an exception and run the program without limits.  `gpuconf
rehearse` starts its agent in the same way.

Runs on Python 2.7, and on 3.5 and newer.  It is compiled at every start if no .pyc can be written,
so it is short and imports nothing else.
"""

import os
import sys

_NAME = "_gpuconf_injected_"
VARIABLE = "GPUCONF_RUN"
_FRAMEWORKS = frozenset(("tensorflow", "keras", "torch", "jax"))


def load(name):
    """Return the module ``name`` of this package, loaded by path under a private name."""
    full_name = _NAME + name
    if full_name not in sys.modules:
        path = os.path.join(_PACKAGE, name + ".py")
        module = type(sys)(full_name)
        module.__file__ = path
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
        sys.modules.setdefault(full_name, module)  # another thread may have been faster
    return sys.modules[full_name]


def end(what, hint):
    """End the process because its GPU memory could not be limited."""
    text = "gpuconf run: %s\n  the program was stopped: its GPU memory could not be limited\n"
    try:
        sys.stdout.flush()
    except Exception:
        pass  # closed, or None
    os.write(2, ((text + "  hint: %s\n") % (what, hint)).encode("utf-8", "replace"))
    os._exit(1)


def end_by(error):
    """End the process because of an unexpected error."""
    hint = "reinstall gpuconf, or start the program without `gpuconf run`"
    end("%s: %s" % (type(error).__name__, error), hint)


class Finder(object):
    """The finder on ``sys.meta_path`` that handles framework imports first."""

    def __init__(self):
        self.is_retired = False

    def find_spec(self, name, path=None, target=None):
        """Python 3: return the spec of a framework; None for all other modules."""
        if name not in _FRAMEWORKS:
            if sys.meta_path[0] is not self:
                self.stay_first()
            return None
        return None if self.is_retired else self._imports().find_spec(self, name, path, target)

    def find_module(self, name, _path=None):
        """Python 2: return a loader for a framework; None for all other modules."""
        if name not in _FRAMEWORKS:
            if sys.meta_path[0] is not self:
                self.stay_first()
            return None
        return self._imports().find_module(name)

    def _imports(self):
        try:
            return load("imports")
        except Exception as error:
            end_by(error)

    def stay_first(self):
        """Move this finder back to the front; insert first, as other threads may be searching."""
        path = sys.meta_path
        if not self.is_retired and path and path[0] is not self:
            path.insert(0, self)
            if self in path[1:]:
                del path[path.index(self, 1)]

    def audit(self, event, arguments):
        """Python 3.8 and newer: an audit hook, which runs before any finder."""
        if event == "import" and arguments[0].partition(".")[0] in _FRAMEWORKS:
            self.stay_first()


def _start():
    finder = Finder()
    sys.meta_path.insert(0, finder)
    if hasattr(sys, "addaudithook"):
        sys.addaudithook(finder.audit)
    for name in _FRAMEWORKS:
        if name in sys.modules:  # imported by a .pth file
            load("imports").apply(name)


def _run_the_users_own(folders):
    """Run the ``sitecustomize`` that this one hides, if any, under its own name."""
    if sys.version_info[0] == 2:
        import imp

        try:
            found = imp.find_module("sitecustomize", folders)
        except ImportError:
            return
        _chained.append(_folder_of(found[1]))
        del sys.modules["sitecustomize"]
        imp.load_module("sitecustomize", *found)
        return
    spec = _path_finder().find_spec("sitecustomize", folders)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    _chained.append(_folder_of(spec.origin))
    sys.modules["sitecustomize"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _path_finder():
    for finder in sys.meta_path:
        if getattr(finder, "__name__", "") == "PathFinder":
            return finder  # avoids importlib, which takes 3 ms in 3.6
    from importlib.machinery import PathFinder

    return PathFinder


def _folder_of(path):
    return os.path.dirname(os.path.abspath(path))


def _behind_ours():
    """Return the entries of ``sys.path`` after this folder, except those that have already run.

    Another sitecustomize may run this one again: `gpuconf rehearse` has one that runs the first one
    it finds.
    """
    folders = [os.path.abspath(path) for path in sys.path]
    behind = folders.index(_FOLDER) + 1 if _FOLDER in folders else 0
    done = [_FOLDER] + _chained
    return [path for path in sys.path[behind:] if os.path.abspath(path) not in done]


_FOLDER = _folder_of(__file__)
_PACKAGE = os.path.dirname(_FOLDER)
RUN = os.environ.get(VARIABLE)  # the program may clear its environment
_chained = []
if _NAME + "site" in sys.modules:
    _chained = sys.modules[_NAME + "site"]._chained
else:
    sys.modules[_NAME + "site"] = sys.modules[__name__]
    try:
        if RUN:
            _start()
    except Exception as _error:
        end_by(_error)
    if os.environ.get("GPUCONF_REHEARSAL"):
        load("rehearsed").start(os.environ["GPUCONF_REHEARSAL"])
_run_the_users_own(_behind_ours())  # its errors are reported by Python, as usual
