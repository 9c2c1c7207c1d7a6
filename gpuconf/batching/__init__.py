"""Batches that survive out-of-memory errors: evaluate, predict, fit, any function of batches.

The data stays in host RAM. The GPU receives one batch at a time, or a smaller one if
that does not fit.
"""

from gpuconf.batching.decorator import oom_safe
from gpuconf.batching.evaluating import evaluate
from gpuconf.batching.fitting import fit
from gpuconf.batching.predicting import predict
from gpuconf.batching.sessions import session_evaluate
from gpuconf.batching.size import forget

__all__ = ["evaluate", "fit", "forget", "oom_safe", "predict", "session_evaluate"]
