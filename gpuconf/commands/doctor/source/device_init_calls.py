"""Calls that create a framework's devices, by full name.

Each of TensorFlow's calls was run alone in a new process (see
gpuconf/backends/tensorflow/early_init.py, which lists them by last name); importing, listing GPUs,
and ``Dense()`` create no devices.
"""

from __future__ import annotations

import ast

from gpuconf.commands.doctor.source.script import LISTS_GPUS, Script

_TF = "tensorflow."
# These leave the eager context without a handle: a later setting neither raises nor takes effect.
TENSORFLOW_SILENT = frozenset(
    {
        "tensorflow.python.client.device_lib.list_local_devices",
        "tensorflow.test.gpu_device_name",
        "tensorflow.test.is_gpu_available",
    }
)
# In graph mode these only add nodes to a graph.
TENSORFLOW_EAGER = frozenset(
    {_TF + name for name in ("constant", "Variable", "convert_to_tensor", "cast", "zeros", "ones")}
    | {_TF + name for name in ("fill", "eye", "range", "one_hot", "device")}
    | {_TF + name for name in ("random.normal", "random.uniform", "random.Generator")}
    | {_TF + name for name in ("data.Dataset.range", "data.Dataset.from_tensor_slices")}
    | {_TF + name for name in ("distribute.MirroredStrategy", "config.list_logical_devices")}
    | {_TF + name for name in ("config.get_memory_info",)}
    | {f"keras.{name}" for name in ("Sequential", "Model", "models.Sequential", "models.Model")}
    | {f"keras.{name}" for name in ("models.load_model", "layers.Dropout", "metrics.Mean")}
    | {
        f"keras.optimizers.{name}"
        for name in ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Nadam")
    }
)
TENSORFLOW = TENSORFLOW_SILENT | TENSORFLOW_EAGER
# Listing starts CUDA, which reads CUDA_VISIBLE_DEVICES at that time and never again.
TENSORFLOW_LISTS = frozenset({LISTS_GPUS})
JAX = frozenset(
    {f"jax.{name}" for name in ("devices", "local_devices", "device_count", "device_put")}
    | {f"jax.{name}" for name in ("local_device_count", "default_backend")}
    | {f"jax.random.{name}" for name in ("PRNGKey", "key")}
    | {f"jax.numpy.{name}" for name in ("array", "asarray", "zeros", "ones", "arange", "linspace")}
)
TORCH_STARTS = frozenset(
    {f"torch.cuda.{name}" for name in ("init", "current_device", "set_device", "synchronize")}
    | {f"torch.cuda.{name}" for name in ("get_device_name", "get_device_properties")}
    | {f"torch.cuda.{name}" for name in ("mem_get_info", "set_per_process_memory_fraction")}
)
# is_available looks for GPUs, but starts nothing.
TORCH = TORCH_STARTS | {"torch.cuda.is_available"}


def initializes_devices(script: Script, node: ast.AST, names: frozenset[str]) -> bool:
    """Whether ``node`` calls one of ``names``."""
    if not isinstance(node, ast.Call):
        return False
    name = script.names.of(node.func)
    if names >= TORCH_STARTS and _is_on_torchs_card(script, node, name):
        return True
    if name in TENSORFLOW_EAGER and script.is_graph_mode:
        return False
    is_empty = name.endswith("Sequential") and not node.args and not node.keywords
    return name in names and not is_empty


def _is_on_torchs_card(script: Script, call: ast.Call, name: str) -> bool:
    """Whether torch puts data on a GPU: ``zeros(…, device="cuda")``, ``x.to("cuda:0")``."""
    devices = [each.value for each in call.keywords if each.arg == "device"]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        devices += call.args[:1]
    elif not name.startswith("torch."):
        return False
    found = map(script.constant, devices)
    return any(isinstance(each, str) and each.startswith("cuda") for each in found)
