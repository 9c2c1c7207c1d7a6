"""Take memory of the GPU through PyTorch or JAX, report what came of it, hold until stdin closes.

FRAMEWORK is torch or jax; with VIA_KERAS the first array is a variable of Keras on that backend.
Then MIB_NEEDED in one piece; then, on each device in turn, STEP_MIB at a time until the framework
says no.  Nothing is computed, because the simulated GPU has no kernels of these frameworks.
"""

import json
import os
import sys

import numpy

from gpuconf.machine.cards import read_inventory

FRAMEWORK = os.environ["FRAMEWORK"]
MIB = 1 << 20


class Torch:
    """Arrays of PyTorch, which are allocated and not filled."""

    def __init__(self):
        import torch

        self.torch = torch
        self.devices = range(torch.cuda.device_count())

    def take(self, size_mib, device=0):
        """An array of so many MiB on one device."""
        return self.torch.empty(size_mib * MIB, dtype=self.torch.uint8, device=f"cuda:{device}")

    def limits(self):
        """The cap of each device in bytes, as PyTorch gives it; None where it has no such call."""
        cuda = self.torch.cuda
        if not hasattr(cuda, "get_per_process_memory_fraction"):
            return None
        totals = [cuda.get_device_properties(each).total_memory for each in self.devices]
        return [
            round(cuda.get_per_process_memory_fraction(each) * totals[each])
            for each in self.devices
        ]


class Jax:
    """Arrays of JAX, copied from the host: it has no other way that runs no kernel."""

    def __init__(self):
        import jax

        self.jax = jax
        self.devices = jax.devices()

    def take(self, size_mib, device=0):
        """An array of so many MiB on one device."""
        made = self.jax.device_put(numpy.zeros(size_mib * MIB, "uint8"), self.devices[device])
        return made.block_until_ready()

    def limits(self):
        """The limit of each device's pool in bytes."""
        return [each.memory_stats()["bytes_limit"] for each in self.devices]


def used_mib():
    """What is in use on each GPU."""
    return [gpu.used_bytes // MIB for gpu in read_inventory().gpus]


def keras_variable():
    """A variable of Keras on the framework's backend, and Keras's version; or why there is none."""
    if "VIA_KERAS" not in os.environ:
        return None, None
    try:
        import keras
    except Exception as error:  # an old PyTorch or JAX that this Keras cannot use
        return None, f"{type(error).__name__}: {error}"
    return keras.Variable(numpy.zeros((16, MIB), "float32")), f"keras {keras.__version__}"


def fill(device):
    """Take STEP_MIB at a time: what is in use after each, and the error at the end."""
    held.append(arrays.take(1, device))  # a GPU counts the context that this makes
    start, steps = used_mib()[device], []
    while True:
        try:
            held.append(arrays.take(int(os.environ["STEP_MIB"]), device))
        except Exception as error:
            return {"steps": steps, "error": text_of(error)}
        steps.append(used_mib()[device] - start)


def text_of(error):
    """The error's type and first line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


before = used_mib()
variable, keras_version = keras_variable()
held = [variable]
arrays = {"torch": Torch, "jax": Jax}[FRAMEWORK]()
result = {"keras": keras_version, "error": None, "filled": []}
try:
    held.append(arrays.take(1))
    result["first_mib"] = used_mib()[0] - before[0]
    result["limits"] = arrays.limits()
    held.append(arrays.take(int(os.environ.get("MIB_NEEDED", "1"))))
except Exception as error:
    result["error"] = text_of(error)
if "STEP_MIB" in os.environ:
    result["filled"] = [fill(number) for number, _ in enumerate(arrays.devices)]
print("RESULT", json.dumps(result), flush=True)
sys.stdin.read()
