"""The kind of program that wrote a log, and the settings that it shows; advice depends on both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from gpuconf.support.failures.facts.card import TABLE_MEMORY
from gpuconf.support.failures.log.watchers import LogLine

Sign = Literal[
    "trains", "infers", "without-gradients", "loads-a-model", "reads-checkpoint", "validates",
    "keras", "session", "diffusion", "vllm", "transformers", "xgboost", "lightgbm", "cupy",
    "hides-cards", "numpy", "limit-set", "growth-set", "segments-set", "split-set",
    "preallocation-off", "ranks", "trials", "pins-memory", "driver-out-of-memory",
    "amd", "node", "onnxruntime", "optimizer-state", "semaphore", "shuffle-buffer",
    "data-pipeline", "managed-memory", "malloc-async", "directml",
    "keeps-predictions", "vmap", "ray", "idle-gpu", "new-gpu", "cuda-10",
]  # fmt: skip

# The signs of a program, anywhere in the log.
_SIGNS: tuple[tuple[Sign, re.Pattern[str]], ...] = (
    ("trains", re.compile(
        r"\.backward\(|optimi[sz]er\.step|scaler\.step|\.fit\(|train_on_batch|train_step"
        r"|training_step|apply_gradients|\.minimize\(|[\w/\\]train\w{0,30}\.py|[Ee]poch\W{0,3}\d"
        r"|\btrainer?\.train\(|finetune|GradientTape|in train\w{0,30}\b")),
    ("infers", re.compile(
        r"\.generate\(|\binfer\w{0,20}\b|__inference_predict_|\bpredict\w{0,20}\b|\bdemo\w{0,20}\.py|\btest\.py"
        r"|\btest_step|\bsample\w{0,20}\.py|\bgenerat(?:e|ing|ion)\b|\bdecode\(|txt2img|img2img",
        re.IGNORECASE)),
    ("without-gradients", re.compile(
        r"grad_mode\.py|torch[/\\]utils[/\\]_contextlib\.py|decorate_context|no_grad\(|inference_mode")),
    ("keras", re.compile(r"\bkeras\b|\.fit\(|\bmodel\.(?:evaluate|predict)\(")),
    ("session", re.compile(
        r"client[/\\]session\.py|\bsess(?:ion)?\.run\(|tensorflow[/\\]contrib|\bdnnlib\b|stylegan"
        r"|object_detection[/\\]|tf_slim|[Mm]onitored_?[Ss]ession|[Mm]onitoredTraining"
        r"|tensorflow_estimator|estimator[/\\]estimator\.py|\btfutil\b")),
    ("diffusion", re.compile(
        r"stable[-_. ]?diffusion|\bdiffusers\b|comfy|k_diffusion|[/\\]ldm[/\\]|txt2img|fooocus|sdxl"
        r"|a1111|invokeai|\bvae\b", re.IGNORECASE)),
    ("vllm", re.compile(r"\bvllm\b|gpu[-_ ]memory[-_ ]utilization|\bsglang\b", re.IGNORECASE)),
    ("transformers", re.compile(
        r"[/\\]transformers[/\\]|from_pretrained|\baccelerate\b|exllama")),
    ("xgboost", re.compile(r"\bxgboost\b|\bxgb\b|\bcatboost\b", re.IGNORECASE)),
    ("lightgbm", re.compile(r"\blightgbm\b", re.IGNORECASE)),
    ("cupy", re.compile(r"\bcupy\b", re.IGNORECASE)),
    ("hides-cards", re.compile(
        r"CUDA_VISIBLE_DEVICES=(?:-1\b|\"\"|''|\$\S|\s|NoDevFiles|none\b)"
        r"|CUDA_VISIBLE_DEVICES[\"']\]\s{0,9}=\s{0,9}[\"'](?:-1|)[\"']")),
    ("numpy", re.compile(r"\bnp\.[a-z]|\bnumpy\b|\bMemoryError\b")),
    ("limit-set", re.compile(
        r"\bmemory_limit\s{0,9}=\s{0,9}\d|per_process_gpu_memory_fraction\s{0,9}=\s{0,9}0?\.\d"
        r"|CLIENT_MEM_FRACTION\W{1,6}0?\.\d|set_per_process_memory_fraction\(")),
    ("growth-set", re.compile(
        r"allow_growth\s{0,9}=\s{0,9}True|set_memory_growth\(.{0,100}True"
        r"|TF_FORCE_GPU_ALLOW_GROWTH\W{1,6}true", re.IGNORECASE)),
    ("segments-set", re.compile(r"ALLOC_CONF\W{1,6}\S{0,80}expandable_segments:True")),
    ("split-set", re.compile(r"ALLOC_CONF\W{1,6}\S{0,80}max_split_size_mb:\d")),
    ("preallocation-off", re.compile(
        r"XLA_PYTHON_CLIENT_PREALLOCATE\W{1,6}false", re.IGNORECASE)),
    # A rank other than the first one, on the first GPU.
    ("ranks", re.compile(
        r"^(?:\[\d{1,4},[1-9]\d{0,4}\]<std(?:err|out)>|\[rank[1-9]\d{0,4}\]):.{0,2000}?"
        r"(?:\bGPU 0\b|-> device: 0,)")),
    # Of Keras Tuner and Optuna; or names that TensorFlow has numbered, as it does in a loop.
    ("trials", re.compile(
        r"\b[Tt]rial[ #][1-9]\d{0,4} (?:finished|Complete|failed|as TrialState)\b"
        r"|(?<![/\w])(?:(?:training|sequential|functional|Adam)_(?:[5-9]|\d{2,4})|model_\d{2,4})/"
        r"|\bVariable_(?:[5-9]\d\d|\d{4,5})/")),
    ("pins-memory", re.compile(r"\bdata\.pin_memory\(")),
    ("driver-out-of-memory", re.compile(r"\bNV_ERR_NO_MEMORY\b")),
    ("amd", re.compile(
        r"\bhip(?:Error\w{1,40}|_\w{1,40}\.cpp)|\bHIP (?:error|out of memory)|\bROCm\b")),
    ("node", re.compile(r"\btfjs\b|\bnode_modules\b|\[Nest\]|\.js:\d{1,6}:\d")),
    ("onnxruntime", re.compile(r"onnxruntime")),
    ("optimizer-state", re.compile(
        r"\bexp_avg(?:_sq)?\b|\bin _?init_group\b|momentum_buffer|low_level_optim")),
    ("semaphore", re.compile(r"\bSemLock\(|multiprocessing[/\\]synchronize\.py|\bctx\.Lock\(")),
    ("data-pipeline", re.compile(r"IteratorGetNext|\bPyFunc\b")),
    ("managed-memory", re.compile(r"bitsandbytes[/\\]csrc|paged_adamw")),
    ("directml", re.compile(r"\bdml_device_")),
    ("malloc-async", re.compile(r"\bcudaMallocAsync\b")),
    ("shuffle-buffer", re.compile(r"(?i)shuffle buffer")),
    ("keeps-predictions", re.compile(
        r"\bin (?:evaluation_loop|prediction_loop|nested_concat)\b"
        r"|transformers[/\\]trainer\.py.{1,30}\bin predict\b")),
    ("vmap", re.compile(r"\bvmap\b")),
    ("ray", re.compile(r"^\W{0,9}\((?:[\w:.]{1,60} )?pid=\d{1,9}(?:, ip=[\d.]{1,40})?\)")),
    ("new-gpu", re.compile(r"\bRTX ?[345]0[5-9]0|\b[AH]100\b|\bRTX A\d000")),
    ("cuda-10", re.compile(
        r"(?i)\bcuda(?:toolkit)?[ =:]{0,3}(?:v|version )?(?:[89]|10)\.\d"
        r"|lib(?:cudart|cublas)\.so\.(?:[89]|10)\b"
        r"|(?:cublas64_(?:80|9\d|100?)|cudart64_(?:80|9\d|10\d))\.dll")),
)  # fmt: skip
# PyTorch's own message names the setting that it suggests; that does not mean that it is set.
_HINT = re.compile(r"\b[Tt]ry setting \S{0,60}ALLOC_CONF\S{0,60}")
# Stack frames that create a model or move it to the GPU, near the line that failed.
_LOADS = re.compile(
    r"\bin (?:from_pretrained|load_\w{1,60}|_load_\w{1,60}|_apply|convert|restore\w{0,30}|cuda)\b"
    r"|from_pretrained\(|load_state_dict|load_checkpoint|\b(?:model|pipe|pipeline)\.(?:to|cuda)\(|\bload_model"
    r"|failed to load|initialize_model|\bload_weights|\bin (?:init|create)\w{0,10}_state\b"
    r"|\bin (?:build|_load_pretrained_model)\b"
    r"|nn[/\\]modules[/\\]\w{1,40}\.py\", line \d{1,6}, in (?:__init__|reset_parameters)\b"
)
# Frames that read a file of tensors which were saved on a GPU.
_READS = re.compile(
    r"\bin (?:default_restore_location|restore_location|_cuda_deserialize|persistent_load)\b"
)
# Frames of an evaluation, or what a progress bar calls it.
_VALIDATES = re.compile(
    r"\bin (?!train)(?:\w{1,20}_)?(?:eval|evaluate|evaluation|val|valid|validate|validation|test)"
    r"(?:_(?:epoch|step|loop|model|one_epoch))?\b|\bin prediction_loop\b|\((?:valid|val)\):"
)
_NEAR = 60
_NEARBY: tuple[tuple[Sign, re.Pattern[str]], ...] = (
    ("loads-a-model", _LOADS), ("reads-checkpoint", _READS), ("validates", _VALIDATES),
)  # fmt: skip


class ProgramReader:
    """Watches a log for clues to the kind of program and its settings."""

    parts: Sequence[str] = (
        "infer", "predict", "train", "diffusion", "worker", "loader", "session", "generat",
    )  # fmt: skip
    phrases: Sequence[str] = (
        "backward", "optimizer", "optimiser", "scaler step", "fit", "apply gradients", "minimize",
        "epoch", "finetune", "gradienttape", "demo", "test py", "sample", "decode", "txt2img",
        "img2img", "test step", "grad mode py", "contextlib py", "decorate context", "no grad",
        "keras", "evaluate", "sess run", "contrib", "dnnlib", "stylegan", "object detection",
        "tf slim", "estimator", "tfutil", "stable", "diffusers", "comfy", "comfyui", "k diffusion",
        "ldm", "fooocus", "sdxl", "invokeai", "vae", "vllm", "gpu memory utilization", "sglang",
        "transformers", "from pretrained", "accelerate", "exllama", "xgboost", "xgb", "lightgbm",
        "catboost", "cupy", "cuda visible devices", "allow growth", "set memory growth",
        "tf force gpu allow growth", "alloc conf", "xla python client preallocate",
        "np", "numpy", "memoryerror", "memory limit",
        "per process gpu memory fraction", "xla python client mem fraction",
        "set per process memory fraction", "in apply", "in convert", "in cuda", "load state dict",
        "load checkpoint", "model to", "model cuda", "load model", "failed to load",
        "initialize model", "load weights", "in load",
        "vmap", "pipe to", "pipe cuda", "pipeline to", "pipeline cuda",
        "stderr", "stdout", "rank", "trial", "pin memory", "nv err no memory", "dml device",
        "hip error", "hip out of memory", "hip code object", "hiperrornobinaryforgpu", "rocm",
        "tfjs", "node modules", "nest", "js", "onnxruntime", "onnxruntime providers cuda",
        "exp avg", "exp avg sq", "init group", "momentum buffer", "low level optim", "semlock",
        "synchronize py", "ctx lock", "shuffle buffer", "iteratorgetnext", "pyfunc",
        "csrc pythoninterface c", "paged adamw", "cudamallocasync",
        "in default restore location", "in restore location", "in cuda deserialize",
        "in persistent load", "in build", "in reset parameters", "modules", "in nested concat",
        "evaluation", "eval", "val", "valid", "validate", "validation", "in test",
        "in init train state", "in create train state", "variable read", "sequential",
        "functional", "adam", "pid", "mib mib", "mb", "rtx", "nvidia a", "nvidia h", "cuda",
        "cudatoolkit", "libcudart so", "libcublas so", "dll",
    )  # fmt: skip

    def __init__(self) -> None:
        self._signs: dict[Sign, None] = {}
        self._nearby: dict[Sign, list[int]] = {sign: [] for sign, _ in _NEARBY}
        self._saw_full_gpu = False

    def see(self, line: LogLine) -> None:
        """Note the clues in a line."""
        text = _HINT.sub("", line.text[:2000])
        for sign, pattern in _SIGNS:
            if sign not in self._signs and pattern.search(text):
                self._signs[sign] = None
        for used, total in TABLE_MEMORY.findall(text):
            if int(used) > 0.75 * int(total):
                self._saw_full_gpu = True
            elif self._saw_full_gpu and int(used) < 0.05 * int(total):
                self._signs["idle-gpu"] = None
        for sign, pattern in _NEARBY:
            if pattern.search(text):
                self._nearby[sign].append(line.number)

    def signs(self, failed_at: Sequence[int]) -> tuple[Sign, ...]:
        """The clues seen; of those in frames, only the ones near one of these lines."""
        near = [
            sign
            for sign, seen in self._nearby.items()
            if any(abs(one - other) <= _NEAR for one in seen for other in failed_at)
        ]
        return (*self._signs, *near)
