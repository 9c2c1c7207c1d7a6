"""The callback methods of every Keras version, doing nothing.

This is not a subclass of any Keras's ``Callback``: Keras calls hooks by name, so one class serves
every Keras, and none has to be imported.
"""

from __future__ import annotations

from typing import Any


def _nothing(*_arguments: Any, **_options: Any) -> None:
    """A hook that does nothing."""


# Keras 3 calls batch hooks in a thread; this mark says that they need not be waited for.
vars(_nothing)["_is_default"] = True


class KerasHooks:
    """Every hook that any Keras version calls, doing nothing."""

    on_train_begin = on_test_begin = on_predict_begin = on_epoch_begin = _nothing
    on_train_end = on_test_end = on_predict_end = on_epoch_end = _nothing
    on_batch_begin = on_train_batch_begin = on_test_batch_begin = on_predict_batch_begin = _nothing
    on_batch_end = on_train_batch_end = on_test_batch_end = on_predict_batch_end = _nothing

    # Read by Keras 2's CallbackList.  Logs may stay tensors here; with False, it would copy them
    # for all callbacks.
    _supports_tf_logs = True
    _chief_worker_only = False

    params: Any = None
    model: Any = None

    def set_params(self, params: Any) -> None:
        """Accept Keras's parameters for the loop."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Accept the model; Keras calls this once for each fit(), evaluate() and predict()."""
        self.model = model

    def _implements_train_batch_hooks(self) -> bool:
        return False

    _implements_test_batch_hooks = _implements_predict_batch_hooks = _implements_train_batch_hooks
