"""``oom_safe`` against the real allocators of PyTorch and JAX, on a simulated GPU."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import MIB
from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow(seconds=20)

_TORCH = """
import numpy as np, torch
from gpuconf import oom_safe
from gpuconf.batching.card import card_in_use

MIB = 2**20
assert card_in_use() is None
torch.cuda.set_per_process_memory_fraction(1024.25 * MIB / torch.cuda.mem_get_info()[1])

def hold(samples):
    return torch.empty(samples * 128 * MIB, dtype=torch.uint8, device="cuda")

seen = []
@oom_safe(batch_size=32)
def copied(x):
    seen.append(len(x))
    hog = hold(len(x) - 1)
    return torch.as_tensor(x, device="cuda")

x = np.arange(40.0)
report(same=bool((copied(x) == x).all()), seen=seen)
report(left=torch.cuda.memory_allocated(), limit=card_in_use().limit_bytes // MIB)

# What the first part had is let go before the next: both would not fit.
@oom_safe(batch_size=8)
def in_two_pieces(x):
    first = hold(5)
    return hold(len(x) - 2)[: len(x)]
report(pieces=in_two_pieces(np.zeros(12)).shape)

torch.cuda.empty_cache()
hold(7)
report(cached=torch.cuda.memory_reserved() // MIB)
@oom_safe(batch_size=16)
def small(x):
    return hold(16 if len(x) == 16 else 1)[: len(x)]
small(np.zeros(16))
report(after=torch.cuda.memory_reserved() // MIB)

most = []
@oom_safe
def automatic(x):
    most.append(len(x))
    return torch.empty(len(x) * 4 * MIB, dtype=torch.uint8, device="cuda")[: len(x)]
automatic(np.zeros(1000))
report(most=most[:4], largest=max(most))

try:
    oom_safe(batch_size=4)(lambda x: hold(9))(x)
except torch.OutOfMemoryError as error:
    report(own=str(error)[:18])
"""


def test_torch(run_on_card: RunOnCard) -> None:
    """Halved at torch's own refusal; nothing stays on the GPU; its cache is given back."""
    outcome = run_on_card(_TORCH, frameworks=("torch",))
    assert outcome.code == 0, outcome.log
    values = outcome.values
    assert (values["same"], values["seen"]) == (True, [32, 16, 8, 8, 8, 8, 8])
    assert (values["left"], values["limit"]) == (0, 1024)
    assert values["pieces"] == [12]
    assert (values["cached"], values["after"]) == (896, 128)
    assert (values["most"], values["largest"]) == ([32, 64, 128, 256], 256)
    assert values["own"] == "CUDA out of memory"
    assert "not even one sample fits" in outcome.log
    short = "Tried to allocate 3.88 GiB; 32 samples do not fit; continuing with 16"
    assert outcome.log.count(short) == 1


# XLA waits 10 seconds before each refusal, as TensorFlow does: there are three.
_JAX = """
import time

import jax, jax.numpy as jnp, numpy as np
from gpuconf import oom_safe
from gpuconf.batching.card import card_in_use

MIB = 2**20
assert card_in_use() is None

def hold(samples):
    return jax.device_put(np.zeros(samples * 16 * MIB, dtype=np.uint8))

seen = []
@oom_safe(batch_size=16)
def copied(x):
    seen.append(len(x))
    hold(len(x) - 1).block_until_ready()
    return jax.device_put(x)

x = np.arange(40, dtype=np.float32)
report(same=bool((copied(x) == x).all()), seen=seen)
# JAX lets go of the last result from a thread of its own, a moment later.
deadline = time.monotonic() + 30
while (card := card_in_use()).in_use_bytes >= MIB and time.monotonic() < deadline:
    time.sleep(0.01)
report(left=card.in_use_bytes, limit=card.limit_bytes // MIB)

# Compiled: JAX 0.10 answers before it has looked for memory, and fails where the result is read.
large = jax.jit(lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 64 * MIB)))
calls = []
def compiled(x):
    calls.append(len(x))
    return large(x) if len(x) > 1 else jax.device_put(x)
found = oom_safe(batch_size=2, combine=lambda results, sizes: sizes)(compiled)(x[:3])
report(calls=calls, sizes=found)

state = jax.device_put(np.ones(8, np.float32))
given = jax.jit(
    lambda state, x: (state + 1, jnp.broadcast_to(x[:, None], (x.shape[0], 64 * MIB)) + state[0]),
    donate_argnums=0,
)
try:
    oom_safe(batch_size=4, combine=lambda *found: found)(lambda x: given(state, x))(x[:4])
except jax.errors.JaxRuntimeError as error:
    report(own=str(error)[:18], gone=state.is_deleted())
"""


def test_jax(run_on_card: RunOnCard) -> None:
    """Halved at XLA's own refusal, also one that comes late; donated arguments are named."""
    variables = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.01136", "TF_CPP_MIN_LOG_LEVEL": "3"}
    outcome = run_on_card(_JAX, frameworks=("jax",), **variables)
    assert outcome.code == 0, outcome.log
    values = outcome.values
    assert (values["same"], values["seen"]) == (True, [16, 8, 8, 8, 8, 8])
    assert values["left"] < MIB
    assert values["limit"] == 128
    assert (values["calls"], values["sizes"]) == ([2, 1, 1, 1], [1, 1, 1])
    assert values["own"] == "RESOURCE_EXHAUSTED"
    assert values["gone"]
    assert "a donated argument (donate_argnums)" in outcome.log
