"""The environment variables that TensorFlow reads when it creates its GPU devices."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.basics.environment import Change
from gpuconf.basics.units import MIB
from gpuconf.profile import Profile
from gpuconf.profile.owned_variables import OWNED_VARIABLES

GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
ALLOCATOR = "TF_GPU_ALLOCATOR"


def wishes(profile: Profile, growth: bool | None, *, has_tf_keras: bool) -> list[Change]:
    """Return the variables for ``profile``, none of which needs figures.

    ``growth`` is the single switch for all GPUs; ``has_tf_keras`` says whether that package can be
    imported.

    Growth is set with ``TF_FORCE_GPU_ALLOW_GROWTH`` because only that switch works together with a
    memory limit.  TensorFlow rejects ``set_memory_growth`` on a device with logical devices, and
    silently drops it in the reverse order.  It reads only lowercase ``true`` and ``false``.
    """
    rules = profile.tensorflow
    found = []
    if growth is not None:
        value = "true" if growth else "false"
        found.append(_change(GROWTH, value, valid=("true", "false")))
    if rules.allocator == "cuda_malloc_async":
        found.append(_change(ALLOCATOR, rules.allocator))
    if rules.cudnn_workspace_limit is not None:
        # At least 1, because TensorFlow reads 0 as "no workspace at all".
        value = str(max(rules.cudnn_workspace_limit // MIB, 1))
        found.append(_change("TF_CUDNN_WORKSPACE_LIMIT_IN_MB", value))
    if rules.session == "graph" and has_tf_keras:
        # Otherwise tf.keras is Keras 3 since TensorFlow 2.16, which has no sessions.
        found.append(Change("TF_USE_LEGACY_KERAS", "1", "tensorflow.session"))
    return found


def _change(name: str, value: str, *, valid: tuple[str, ...] | None = None) -> Change:
    return Change(name, value, OWNED_VARIABLES[name], valid)


def unenforced_limit(environ: Mapping[str, str]) -> str | None:
    """Return why no limit is a cap in ``environ``; None if limits are caps."""
    if environ.get(ALLOCATOR) == "cuda_malloc_async":
        return (
            "with TF_GPU_ALLOCATOR=cuda_malloc_async, TensorFlow does not enforce its limit; "
            "`unset TF_GPU_ALLOCATOR` to enforce it"
        )
    return None
