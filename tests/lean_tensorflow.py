"""What starts with every Python that the tests start: TensorFlow takes half the time to come up.

TensorFlow and Keras import jax, scikit-learn, SciPy, matplotlib, pandas and IPython where these
happen to be installed, and do without where not.  The tests need them beside TensorFlow, users
of TensorFlow alone have none of them, and to import them takes some 3 s of every start of it.  So
TensorFlow and Keras are told here that they are absent; whoever else asks gets them.

`conftest.py` puts this on PYTHONPATH as ``sitecustomize``.  Programs with ``WHOLE_TENSORFLOW`` in
their environment are spared: two checks of the acceptance, and what is about imports and workers,
where a framework that TensorFlow imports on its way is part of what is tested (the fixture
``whole_tensorflow``).
"""

# Not a module more: tests see what the statements of their programs load.
import os
import sys

_OPTIONAL = {"IPython", "cv2", "jax", "matplotlib", "pandas", "scipy", "sklearn"}
_DO_WITHOUT = {"keras", "tensorflow", "tf_keras"}
# Python's own machinery, and the finder of gpuconf's hooks, which asks the other finders.
_ON_THE_WAY = ("importlib.", "_frozen_importlib", "gpuconf.import_hook", __name__)


class _Absent:
    """The first finder on ``sys.meta_path``."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Refuse what TensorFlow itself asks for; leave the rest to the other finders."""
        on_jax = os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow"  # which needs it
        if name in _OPTIONAL and not on_jax and _importer() in _DO_WITHOUT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _importer() -> str:
    """The top package of the code that imports."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(_ON_THE_WAY):
            return module.partition(".")[0]
    return ""


if __name__ == "sitecustomize" and "WHOLE_TENSORFLOW" not in os.environ:
    sys.meta_path.insert(0, _Absent)
