"""Intercepts framework imports in a program under `gpuconf run`, and applies the plan to them.

If this Python can import the gpuconf version that planned the run, gpuconf itself takes over.
Otherwise this package applies the plan after the framework's own code has run.
"""

import os
import sys

try:
    from _thread import get_ident
except ImportError:
    from thread import get_ident

_site = sys.modules["_gpuconf_injected_site"]
# (name, thread): a search asks the other finders, which may in turn ask this one.
_looking = set()


def find_spec(finder, name, path, target):
    """Return the spec of ``name`` with a loader that applies the plan; None if not found.

    Raises the GpuconfError with which gpuconf itself refuses the plan, again on every retry.
    """
    key = (name, get_ident())
    if key in _looking:
        return None
    _looking.add(key)
    try:
        if _hand_over():
            # gpuconf's finder was added to a list that is being iterated, so it would be skipped.
            _retire(finder)
            return _found(finder, name, path, target)
        spec = _found(finder, name, path, target)
    finally:
        _looking.discard(key)
    if spec is not None and spec.loader is not None:
        spec.loader = _Loader(spec.loader)
    return spec


def _retire(finder):
    finder.is_retired = True
    try:
        sys.meta_path.remove(finder)
    except ValueError:
        pass  # another thread was faster


def find_module(name):
    """Python 2: return a loader, or None if this thread is already searching."""
    return None if (name, get_ident()) in _looking else _Importer


def _found(finder, name, path, target):
    for other in list(sys.meta_path):
        look = getattr(other, "find_spec", None)
        spec = None if other is finder or look is None else look(name, path, target)
        if spec is not None:
            return spec
    return None


class _Loader(object):
    """Replaces a framework's loader for one import, and restores it before the module runs."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module):
        name = module.__name__
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        if hasattr(self._loader, "exec_module"):
            self._loader.exec_module(module)
        else:  # a loader in the style of Python 2
            self._loader.load_module(name)
        apply(name)

    def __getattr__(self, name):
        if name == "_loader":  # not set yet, as in a copy under construction
            raise AttributeError(name)
        return getattr(self._loader, name)


class _Importer(object):
    """Python 2: imports the framework without gpuconf's finder, then applies the plan."""

    @staticmethod
    def load_module(name):
        key = (name, get_ident())
        _looking.add(key)
        try:
            __import__(name)
        finally:
            _looking.discard(key)
        apply(name)
        return sys.modules[name]


def apply(name):
    """Apply the plan to the imported framework ``name``; an error ends the process."""
    try:
        try:
            _hold(name)
        except KeyboardInterrupt:
            _hold(name)  # skips what is done, and delays the interrupt until the rest is
            raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, _site.load("places").NoPlaceError):
            raise  # for the program to handle
        hint = getattr(error, "hint", None)
        if hint is None:
            _site.end_by(error)
        _site.end(str(error), hint)


def _hold(name):
    module = sys.modules.get(name)
    if module is None or _is_off():
        return
    run = _site.load("variable").current()
    _site.load("on_" + name).hold(module, run)


def _is_off():
    """Whether GPUCONF_DISABLE switches gpuconf off; an unclear value does not."""
    value = os.environ.get("GPUCONF_DISABLE", "").strip().lower()
    return value in ("1", "true", "yes", "on")


# --- the full guards ------------------------------------------------------------------------------


def _hand_over():
    """Let the gpuconf that planned the run take over; return whether it did."""
    if sys.version_info < (3, 10):
        return False
    planned = _site.load("variable")
    try:
        run = planned.current()
    except planned.PlanError:
        return False  # ends the process when the framework is actually imported
    os.environ.setdefault(_site.VARIABLE, _site.RUN)  # the program may have cleared it
    finder = _site.load("package").OurPackage(run.package)
    has_own = _has_gpuconf()
    if not has_own:
        sys.meta_path.insert(0, finder)
    is_ours = _configured(run.version)
    if not is_ours and not has_own:
        _forget(finder)
    return is_ours


def _forget(finder):
    """Remove gpuconf again from a program that does not have it installed."""
    sys.meta_path.remove(finder)
    for name in list(sys.modules):
        if name.partition(".")[0] == "gpuconf":
            del sys.modules[name]


def _has_gpuconf():
    """Whether the program has a gpuconf; a folder with that name does not count."""
    if "gpuconf" in sys.modules:
        return True
    from importlib.util import find_spec as find

    spec = find("gpuconf")
    return spec is not None and spec.origin is not None


def _configured(version):
    """Whether that gpuconf version is installed and now manages this process.

    Raises its GpuconfError; any other error ends the process.
    """
    from importlib import import_module

    try:
        import gpuconf

        if getattr(gpuconf, "__version__", None) != version:
            return False
        # Not import statements: this package may not depend on the rest of gpuconf, and only hands
        # over to it.
        bootstrap = import_module("gpuconf.session.configure")
        errors = import_module("gpuconf.errors")
    except Exception:  # broken, or installed without its dependencies
        return False
    try:
        bootstrap.configure()
    except ImportError:
        return False
    except (errors.GpuconfError, KeyboardInterrupt):
        raise
    except BaseException as error:
        _site.end_by(error)
    return True
