"""A full disk on the host: free space, or another disk for the file that was being written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.support.failures.reading import LogFacts

_TEMPORARY = Proposal(
    "put temporary files on another disk",
    "XLA, pip and Python's tempfile write to TMPDIR, and to /tmp if it is not set; the folder must "
    "exist",
    "command",
    "export TMPDIR=/data/tmp; mkdir -p $TMPDIR",
)
_WITHOUT_XLA = Proposal(
    "or let Keras do without XLA",
    "a step that XLA compiles needs room for the compiler's files, one that runs op by op does not",
    "code",
    "model.compile(optimizer, loss, jit_compile=False)",
)
_CACHES = Proposal(
    "put caches on another disk",
    "downloaded models and data sets stay in ~/.cache and ~/.keras; PyTorch's hub, Hugging Face "
    "and pip follow XDG_CACHE_HOME, Keras has KERAS_HOME",
    "command",
    "export XDG_CACHE_HOME=/data/cache KERAS_HOME=/data/keras",
)
_ONE_FILE = "the new file is whole before it replaces the old one, so the disk needs room for two"
_OF_KERAS = Proposal(
    "keep one checkpoint, on a disk that has room for it",
    "a checkpoint has the weights and the optimizer's state: with Adam three times the weights; "
    f"{_ONE_FILE}",
    "code",
    'keras.callbacks.ModelCheckpoint("/data/run/best.weights.h5",\n'
    "                                save_best_only=True, save_weights_only=True)",
)
_OF_TENSORFLOW = Proposal(
    "or let TensorFlow remove old checkpoints",
    "tf.train.Checkpoint keeps every file; a manager keeps at most max_to_keep",
    "code",
    'tf.train.CheckpointManager(checkpoint, "/data/run", max_to_keep=1).save()',
)
_OF_TORCH = Proposal(
    "overwrite one checkpoint, on a disk that has room for it",
    "the weights alone are a third of what they are with Adam's state",
    "code",
    'torch.save(model.state_dict(), "/data/run/last.pt")',
)
_DATA_SET = Proposal(
    "cache the data set on another disk, or not in a file",
    "the file holds every element as it comes out of the pipeline: decoded pictures in float32 "
    "take many times what their JPEGs do",
    "code",
    'data = data.cache("/data/cache/train")   # or leave cache() out and read again each epoch',
)
_EVENTS = Proposal(
    "write events to another disk, and less of them",
    "histograms and profiles are most of what TensorBoard's callback writes",
    "code",
    'keras.callbacks.TensorBoard("/data/logs", histogram_freq=0, profile_batch=0)',
)
_PACKAGES = Proposal(
    "empty pip's cache, and let it unpack on another disk",
    "pip unpacks wheels in TMPDIR before it installs them; a TensorFlow with CUDA takes several GB",
    "command",
    "pip cache purge; mkdir -p /data/tmp; TMPDIR=/data/tmp pip install PACKAGE",
)
# Saving a model; saving NumPy arrays is not a checkpoint.
_SAVES = re.compile(r"(?<!\bnp)(?<!\bnumpy)\.(?:save|export)|Checkpoint|Backup")
_BY_KIND: dict[str, tuple[Proposal, ...]] = {
    "temporary files": (_TEMPORARY,),
    "data set": (_DATA_SET,),
    "events": (_EVENTS,),
    "packages": (_PACKAGES,),
    "cache": (_CACHES,),
}


def for_full_disk(facts: LogFacts) -> Iterator[Proposal]:
    """Free space, then another disk for this kind of file; the common ones if it is unknown."""
    yield _make_room(facts)
    what = facts.details.get("unwritten")
    if what in _BY_KIND:
        yield from _BY_KIND[what]
    elif what == "checkpoint" or _saves(facts):
        yield from _for_checkpoints(facts)
    else:
        yield from (_TEMPORARY, _CACHES)
    if what == "temporary files" and "jit_compile" not in _code(facts) and _calls_keras(facts):
        yield _WITHOUT_XLA


def _for_checkpoints(facts: LogFacts) -> Iterator[Proposal]:
    if facts.framework == "torch":
        yield _OF_TORCH
        return
    yield _OF_KERAS
    if "Checkpoint" in _code(facts):
        yield _OF_TENSORFLOW


def _make_room(facts: LogFacts) -> Proposal:
    folder = facts.details.get("full_folder")
    if facts.on_windows:
        return Proposal(
            "make room on the drive", _why(folder), "command", "Get-PSDrive -PSProvider FileSystem"
        )
    place = "" if folder is None else f" {shlex.quote(folder)}"
    more = "; quota -s" if "quota" in (facts.exception or "").lower() else ""
    return Proposal(
        "make room on the disk" if folder is None else f"make room on the disk that holds {folder}",
        _why(folder),
        "command",
        f"df -h{place}; df -i{place}{more}",
    )


def _why(folder: str | None) -> str:
    unknown = "the log does not name the file; " if folder is None else ""
    return f"{unknown}a disk can also be out of files (inodes): IUse% 100%"


def _saves(facts: LogFacts) -> bool:
    return _SAVES.search(_code(facts)) is not None


def _calls_keras(facts: LogFacts) -> bool:
    return any(f".{call}(" in _code(facts) for call in ("fit", "evaluate", "predict"))


def _code(facts: LogFacts) -> str:
    return (facts.user_code.code if facts.user_code is not None else None) or ""
