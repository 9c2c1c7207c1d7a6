"""A plan as the variables that TensorFlow reads: pure, TensorFlow itself is not needed."""

from __future__ import annotations

import pytest

from gpuconf.backends.tensorflow.environment import wishes
from gpuconf.basics.environment import settle
from gpuconf.basics.units import MIB
from gpuconf.profile.model import Profile, TensorFlowRules


@pytest.mark.parametrize(
    ("limit_bytes", "value"), [(256 * MIB, "256"), (3 * MIB - 1, "2"), (MIB // 2, "1")]
)
def test_the_cudnn_workspace_in_whole_mib(limit_bytes: int, value: str) -> None:
    """A limit below 1 MiB is not 0, which TensorFlow reads as no workspace at all."""
    profile = Profile("any", tensorflow=TensorFlowRules(cudnn_workspace_limit=limit_bytes))
    changes, _ = settle(wishes(profile, None, has_tf_keras=False), {})
    assert changes == {"TF_CUDNN_WORKSPACE_LIMIT_IN_MB": value}
