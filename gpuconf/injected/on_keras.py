"""Keras in graph mode: with `tensorflow.session: graph`, installs a session under the plan.

Otherwise the session that Keras creates is limited like any other.
"""

import sys

_site = sys.modules["_gpuconf_injected_site"]


class NoSessionError(RuntimeError):
    """This Keras does not accept a session."""

    hint = "use Keras 2, or a profile without `tensorflow.session: graph`"


def hold(keras, run):
    """Install the session once TensorFlow is imported; raises NoSessionError for Keras 3."""
    version = getattr(keras, "__version__", None)
    if run.session != "graph" or not isinstance(version, str) or _is_worker():
        return
    if not _site.load("on_tensorflow").is_held() or not _is_on_tensorflow(keras):
        return  # called again after TensorFlow's import, or not on TensorFlow
    backend = _session_backend(keras)
    if backend is None:
        raise NoSessionError(
            "the profile needs a version-1 session (tensorflow.session: graph), but Keras %s has "
            "no set_session" % (version,)
        )
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.client import session

    backend.set_session(session.Session(config=config_pb2.ConfigProto(allow_soft_placement=True)))


def _is_on_tensorflow(keras):
    name = getattr(getattr(keras, "backend", None), "backend", None)
    return name is None or name() == "tensorflow"


def _session_backend(keras):
    """Return the module with ``set_session``: Keras's own up to 2.3, and tf.keras's after that."""
    own = getattr(keras, "backend", None)
    if hasattr(own, "set_session"):
        return own
    compat = getattr(getattr(sys.modules["tensorflow"], "compat", None), "v1", None)
    theirs = getattr(getattr(compat, "keras", None), "backend", None)
    return theirs if hasattr(theirs, "set_session") else None


def _is_worker():
    """Whether multiprocessing started this process, which then computes nothing at import."""
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return False
    return multiprocessing.current_process().name != "MainProcess"
