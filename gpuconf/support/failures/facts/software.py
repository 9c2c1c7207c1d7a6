"""The software that wrote a log: framework, versions, Windows.  Proposals depend on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from gpuconf.support.failures.facts.tensor import first_group
from gpuconf.support.failures.log.watchers import LogLine

Framework = Literal["tensorflow", "jax", "torch"]

# The order matters: TensorFlow's lines often appear around the messages of PyTorch and JAX, the
# reverse is rare.
_OF: tuple[tuple[Framework, re.Pattern[str]], ...] = (
    (
        "torch",
        re.compile(
            r"\b(?:py)?torch\b|c10|aten/|when calling `cu|cuDNN error: CUDNN|CUDA out of mem"
            r"|CUDA error: CUBLAS|THCudaCheck|OutOfMemoryError\s{1,99}Traceback"
            r"|transformers[/\\]trainer|TORCH_USE_CUDA_DSA|errors might be asynchronously reported",
            re.IGNORECASE,
        ),
    ),
    (
        "jax",
        re.compile(
            r"\bjax(?:lib)?\b|xla_bridge|XlaRuntimeError|JaxRuntime|external/xla/|hlo_module=jit_"
            r"|CUDA backend failed to initialize",
            re.IGNORECASE,
        ),
    ),
    (
        "tensorflow",
        re.compile(
            r"tensorflow|keras|\btf\.|OP_REQUIRES|\[Op:|\{\{node |\[\[Node:|/task:\d{1,4}/device:"
            r"|Dst tensor is not|dso_loader|Could not load dynamic library"
            r"|OOM when allocating tensor|Failed to get convolution",
            re.IGNORECASE,
        ),
    ),
)
# Paths and calls that do not exist since TensorFlow 2.15 and its Keras: StreamExecutor moved to
# XLA's folders, tensorflow_core existed in 1.15 to 2.1, Keras's tensorflow_backend up to 2.3.
_OF_OLD_TENSORFLOW = re.compile(
    r"\btensorflow[/\\](?:compiler/xla/)?stream_executor[/\\]|\btensorflow_core[./]|"
    r"tf_jenkins|\(see above for traceback\)|"
    r"\btf\.(?:Session|ConfigProto|GPUOptions|InteractiveSession|contrib)\b|"
    r"keras[./\\]backend[./\\]tensorflow_backend\b|\[\[Node: |\btensorflow[./\\]contrib\b|"
    r"\btensorflow_core[.\\]|BaseCollectiveExecutor|Error reported to Coordinator|\bCaused by op '|"
    r"\}\} = \w{1,60}\[|"
    r"\bkeras[/\\]engine[/\\]|\btensorflow-gpu\b|"
    # CUDA 10 and older, and the years before 2.15.
    r"lib(?:cudart|cublas|cufft|curand|cusolver|cusparse)\.so\.(?:[5-9]|10)\.\d|"
    r"libcudnn\.so\.[5-7]\b|"
    r"(?:cudnn64_[5-7]|cublas64_(?:80|9\d|10|100)|cudart64_(?:80|9\d|10\d))\.dll|"
    r"^\W{0,9}20(?:1\d|2[0-2])-\d\d-\d\d .{8,20}: [IWEF] tensorflow/"
)
_WINDOWS = re.compile(r"\.dll\b|\b[A-Za-z]:\\|WinError", re.IGNORECASE)
_VERSION = r"(\d{1,4}(?:\.\d{1,4}){1,3}(?:[-.+a-z]\w{1,16})?)"
_VERSIONS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("python", re.compile(
        r"[/\\]python(3\.\d{1,2})[/\\]|\bPython (3\.\d{1,2}(?:\.\d{1,2})?)\b")),
    ("tensorflow", re.compile(
        rf"\b(?:tensorflow(?:[-_]gpu|[-_]cpu)?|TF)(?: [Vv]ersion)?(?:==|:? |-){_VERSION}",
        re.IGNORECASE)),
    ("keras", re.compile(rf"\bkeras(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("torch", re.compile(rf"\b(?:py)?torch(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("jax", re.compile(rf"\bjax(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("jaxlib", re.compile(rf"\bjaxlib(?: version)?(?:==|:? |-){_VERSION}", re.IGNORECASE)),
    ("cuda", re.compile(r"\bCUDA [Vv]ersion:? (\d{1,2}\.\d{1,2})\b")),
    ("cudnn", re.compile(r"Loaded cuDNN version (\d[\d.]{2,8})\b")),
)  # fmt: skip


class SoftwareReader:
    """Watches a log for names and versions of frameworks, and for Windows paths.

    ``versions`` holds the first version found for each package.
    """

    parts: Sequence[str] = ()
    phrases: Sequence[str] = (
        "torch", "pytorch", "aten", "torch use cuda dsa", "asynchronously reported",
        "jax", "jaxlib", "xla bridge", "xlaruntimeerror", "jaxruntimeerror", "external xla",
        "hlo module", "tensorflow", "keras", "tf", "dll", "winerror", "c users", "c",
        "python", "cuda version", "loaded cudnn version", "tensorflow gpu",
        "libcudart so", "libcublas so", "libcudnn so", "libcufft so", "libcurand so",
        "libcusolver so", "libcusparse so", "basecollectiveexecutor", "node",
        "cuda backend failed", "see above for traceback", "error reported to coordinator",
        "caused by op",
    )  # fmt: skip

    def __init__(self) -> None:
        self.on_windows = False
        self.versions: dict[str, str] = {}
        self.shows_old_tensorflow = False
        self._mentions: Counter[Framework] = Counter()

    def see(self, line: LogLine) -> None:
        """Count the frameworks that a line names, and note the versions in it."""
        text = line.text[:1000]
        if not self.on_windows:
            self.on_windows = _WINDOWS.search(text) is not None
        if not self.shows_old_tensorflow:
            self.shows_old_tensorflow = _OF_OLD_TENSORFLOW.search(text) is not None
        for name, pattern in _OF:
            if pattern.search(text):
                self._mentions[name] += 1
        for package, pattern in _VERSIONS:
            if package in self.versions:
                continue
            if version := first_group(pattern.search(text)):
                self.versions[package] = version

    def framework(self, words: Iterable[str]) -> Framework | None:
        """The framework named in the lines that show the cause; otherwise the one named most
        often."""
        text = "\n".join(words)
        for name, pattern in _OF:
            if pattern.search(text):
                return name
        most = self._mentions.most_common(1)
        return most[0][0] if most else None
