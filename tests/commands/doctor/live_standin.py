"""A stand-in for the tensorflow package: enough for the probe's steps, and it fails when told.

``STANDIN_STEP`` names a step, ``STANDIN_ACT`` what happens in it: a signal's name, ``hang`` (with
a child of its own that has left the process group), ``exit``, or the text of an error to raise.
"""

TENSORFLOW = """
import contextlib, os, signal, subprocess, sys, time, types
import numpy as np

__version__ = "0.standin"
os.write(2, b"I0000 a line of a log\\n" * int(os.environ.get("STANDIN_LINES", "1")))


def reach(step):
    act = os.environ.get("STANDIN_ACT", "")
    if os.environ.get("STANDIN_STEP") != step:
        return
    if act == "hang":
        sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
        print("left", subprocess.Popen(sleeper, start_new_session=True).pid, flush=True)
        time.sleep(600)
    if act == "exit":
        os._exit(3)
    if act.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, act))
    raise RuntimeError(act)


class Tensor:
    def __init__(self, value):
        self.value = value

    def numpy(self):
        return self.value


def matmul(left, right):
    reach("matmul")
    off = float(os.environ.get("STANDIN_OFF", "0"))
    return Tensor((left.astype(np.float64) @ right + off).astype(np.float32))


def conv2d(images, kernels, strides, padding):
    reach("convolution")
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
    return Tensor(np.einsum("bhwcij,ijco->bhwo", windows, kernels))


def list_physical_devices(kind):
    reach("start")
    return ["GPU"]


def list_logical_devices(kind):
    reach("context")
    return [types.SimpleNamespace(name="/device:GPU:0")]


def fit(*arguments, **options):
    reach("fit")
    return types.SimpleNamespace(history={"loss": [float(os.environ.get("STANDIN_LOSS", "1"))]})


model = types.SimpleNamespace(compile=lambda *_: None, fit=fit)
anything = lambda *_, **__: None
keras = types.ModuleType("keras")
keras.__version__ = "0.standin"
keras.Sequential = lambda _: model
keras.Input = anything
keras.layers = types.SimpleNamespace(Conv2D=anything, Flatten=anything, Dense=anything)
keras.losses = types.SimpleNamespace(SparseCategoricalCrossentropy=anything)
linalg = types.SimpleNamespace(matmul=matmul)
nn = types.SimpleNamespace(conv2d=conv2d)
test = types.SimpleNamespace(is_built_with_cuda=lambda: True)
device = lambda _: contextlib.nullcontext()
executing_eagerly = lambda: True
config = types.SimpleNamespace(
    list_physical_devices=list_physical_devices,
    list_logical_devices=list_logical_devices,
    experimental=types.SimpleNamespace(
        get_memory_info=lambda _: {"current": 1, "peak": 2}, reset_memory_stats=anything
    ),
)
"""
