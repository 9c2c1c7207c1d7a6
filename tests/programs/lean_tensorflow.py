"""What every Python that the tests start begins with: TensorFlow starts in a third of the time.

TensorFlow and Keras import jax, scikit-learn, SciPy, matplotlib, pandas and IPython where these
happen to be installed, and do without where not.  The tests need them next to TensorFlow, users
of TensorFlow alone have none of them, and to import them takes some 3 s of every start of it.  So
TensorFlow and Keras are refused them here, as if they were absent; whoever else asks gets them.

While a large framework is imported, and when a program that imported one ends, Python's garbage
collector looks at its hundreds of thousands of objects again and again and finds nothing.  That
takes as long as the import itself.  So it pauses for the import, and passes over these objects
afterwards.  What the program makes later is collected as ever.

`conftest.py` puts this on PYTHONPATH as ``sitecustomize``.  Programs with ``WHOLE_TENSORFLOW`` in
their environment are refused nothing: two checks of the acceptance, and what is about imports and
workers, where a framework that TensorFlow imports on its way is part of what is tested (the fixture
``whole_tensorflow``).
"""

# Not a module more: tests see what the statements of their programs load.
import os
import sys

_OPTIONAL = {"IPython", "cv2", "jax", "matplotlib", "pandas", "scipy", "sklearn"}
_DO_WITHOUT = {"keras", "tensorflow", "tf_keras"}
_LARGE = {"jax", "torch", *_DO_WITHOUT}
# Python's own machinery, and the finder of gpuconf's hooks, which asks the other finders.
_ON_THE_WAY = ("importlib.", "_frozen_importlib", "gpuconf.session.import_hook", __name__)


class _Absent:
    """The first finder on ``sys.meta_path``."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Refuse what TensorFlow itself requests; leave the rest to the other finders."""
        on_jax = os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow"  # which needs it
        if name in _OPTIONAL and not on_jax and _importer() in _DO_WITHOUT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class _Uncollected:
    """The finder after it, for large frameworks."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> object:
        """What Python's own finder gives, with a pause of the garbage collector in its loader."""
        if name not in _LARGE:
            return None
        from importlib.machinery import PathFinder, SourceFileLoader

        spec = PathFinder.find_spec(name)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            _pause_collections(spec.loader)
        return spec


def _pause_collections(loader: object) -> None:
    """Run the module's code without collections, once; it stays the loader that it was."""
    import atexit
    import gc

    run = loader.exec_module  # type: ignore[attr-defined]

    def exec_module(module: object) -> None:
        del loader.exec_module  # type: ignore[attr-defined]  # the class has its own
        if not gc.isenabled():  # within the import of another one, or the program's own choice
            run(module)
            return
        gc.disable()
        try:
            run(module)
        finally:
            gc.freeze()
            gc.enable()
        atexit.register(gc.freeze)

    loader.exec_module = exec_module  # type: ignore[attr-defined]


def _importer() -> str:
    """The top package of the code that imports."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(_ON_THE_WAY):
            return module.partition(".")[0]
    return ""


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, _Uncollected)  # type: ignore[arg-type]  # typeshed wants a ModuleSpec
    if "WHOLE_TENSORFLOW" not in os.environ:
        sys.meta_path.insert(0, _Absent)
