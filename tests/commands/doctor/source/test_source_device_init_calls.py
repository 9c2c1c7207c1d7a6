"""The doctor's calls that create devices are those that a TooLateError looks for."""

from __future__ import annotations

import pytest

from gpuconf.backends.jax import early_init as jax
from gpuconf.backends.tensorflow import early_init as tensorflow
from gpuconf.backends.torch import early_init as torch
from gpuconf.commands.doctor.source import device_init_calls


@pytest.mark.parametrize(
    ("full_names", "last_names"),
    [
        (device_init_calls.TENSORFLOW_EAGER, tensorflow.EAGER_MAKERS),
        (device_init_calls.TENSORFLOW_SILENT, tensorflow.SILENT_MAKERS),
        (device_init_calls.JAX, jax.MAKERS),
        (device_init_calls.TORCH_STARTS, torch.MAKERS),
    ],
    ids=["eager", "silent", "jax", "torch"],
)
def test_makers_are_known_to_both(full_names: frozenset[str], last_names: frozenset[str]) -> None:
    """tests/backends runs the calls by their last names, and so those of the doctor too."""
    assert {name.rpartition(".")[2] for name in full_names} - last_names == set()
