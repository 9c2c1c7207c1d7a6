"""What a framework's import meets in a program of a `gpuconf run`: the full guards, or our own.

Where this Python can import gpuconf of the version that planned the run, gpuconf itself takes over.
Else our own code holds the framework to the plan, once the framework's own code has run.
"""

import os
import sys

try:
    from _thread import get_ident
except ImportError:
    from thread import get_ident

_site = sys.modules["_gpuconf_carried_site"]
# (name, thread): a search asks the other finders, and those may ask this one in turn.
_looking = set()


def find_spec(finder, name, path, target):
    """The spec of the framework ``name``, whose loader holds it to the plan; None if not found.

    Raises the GpuconfError with which the full guards refuse the plan, on every further try too.
    """
    key = (name, get_ident())
    if key in _looking:
        return None
    _looking.add(key)
    try:
        if _hand_over():
            # Its own finder is new in a list that is being walked, and would be passed over.
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
        pass  # another thread was quicker


def find_module(name):
    """Python 2's way: a loader, or None where it is we who look."""
    return None if (name, get_ident()) in _looking else _Importer


def _found(finder, name, path, target):
    for other in list(sys.meta_path):
        look = getattr(other, "find_spec", None)
        spec = None if other is finder or look is None else look(name, path, target)
        if spec is not None:
            return spec
    return None


class _Loader(object):
    """Stands in for a framework's loader for one import, and puts it back before that runs."""

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
        else:  # a loader of Python 2's days
            self._loader.load_module(name)
        apply(name)

    def __getattr__(self, name):
        if name == "_loader":  # not there yet, as in a copy that is being made
            raise AttributeError(name)
        return getattr(self._loader, name)


class _Importer(object):
    """Python 2: imports the framework past our finder, and holds it to the plan."""

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
    """Hold the imported framework ``name`` to the plan; an error ends the process."""
    try:
        try:
            _hold(name)
        except KeyboardInterrupt:
            _hold(name)  # what it has done it passes over, and the interrupt waits so long
            raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, _site.load("places").NoPlaceError):
            raise  # the program's to handle
        hint = getattr(error, "hint", None)
        if hint is None:
            _site.end_by(error)
        _site.end(str(error), hint)


def _hold(name):
    module = sys.modules.get(name)
    if module is None or _is_off():
        return
    run = _site.load("plan").current()
    _site.load("on_" + name).hold(module, run)


def _is_off():
    """Whether GPUCONF_DISABLE switches gpuconf off; what is not a clear yes does not."""
    value = os.environ.get("GPUCONF_DISABLE", "").strip().lower()
    return value in ("1", "true", "yes", "on")


# --- the full guards ------------------------------------------------------------------------------


def _hand_over():
    """Whether the gpuconf that planned the run could take over, and did."""
    if sys.version_info < (3, 10):
        return False
    planned = _site.load("plan")
    try:
        run = planned.current()
    except planned.PlanError:
        return False  # which ends the process once the framework is really imported
    os.environ.setdefault(_site.VARIABLE, _site.RUN)  # the program may have emptied it
    finder = _site.load("package").OurPackage(run.package)
    has_own = _has_gpuconf()
    if not has_own:
        sys.meta_path.insert(0, finder)
    is_ours = _configured(run.version)
    if not is_ours and not has_own:
        _forget(finder)
    return is_ours


def _forget(finder):
    """The program has no gpuconf again, as without us."""
    sys.meta_path.remove(finder)
    for name in list(sys.modules):
        if name.partition(".")[0] == "gpuconf":
            del sys.modules[name]


def _has_gpuconf():
    """Whether the program has a gpuconf; a folder that only bears the name is none."""
    if "gpuconf" in sys.modules:
        return True
    from importlib.util import find_spec as find

    spec = find("gpuconf")
    return spec is not None and spec.origin is not None


def _configured(version):
    """Whether that version of gpuconf is here and holds this process now.

    Raises its GpuconfError; any other error ends the process.
    """
    from importlib import import_module

    try:
        import gpuconf

        if getattr(gpuconf, "__version__", None) != version:
            return False
        # Not import statements: this room stands on the ground, and only hands over to the house.
        bootstrap = import_module("gpuconf.bootstrap")
        errors = import_module("gpuconf.errors")
    except Exception:  # it is broken, or has not been installed with what it needs
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
