"""A full disk: whose words they are, which folder it was, what was being written."""

from __future__ import annotations

import pytest

from gpuconf.messages.full_disk import full_folder, unwritten_in

# TensorFlow's, Keras's, h5py's, PyTorch's, NumPy's, pip's and the shell's own words.
WRITTEN: dict[str, tuple[str | None, str | None]] = {
    "/tmp/t-1; No space left on device\n\tUnable to write PTX contents to: /tmp/t-1": (
        "/tmp", "temporary files",
    ),
    "ptxas exited with non-zero error code 256, output: cat: /scratch/tempfile-vm-1: No space left "
    "on device": ("/scratch", "temporary files"),
    "RESOURCE_EXHAUSTED: ckpt/ck-1_temp/part-00000-of-00001.data-00000-of-00001.tempstate58; No "
    "space left on device": ("ckpt", "checkpoint"),
    "RESOURCE_EXHAUSTED: /m/saved/variables/variables_temp/part-00000-of-00001.data; No space left "
    "on device": ("/m/saved/variables", "checkpoint"),
    "{{function_node __wrapped__IteratorGetNext}} /data/cache_0.data-00000-of-00001.tempstate17; "
    "No space left on device [Op:IteratorGetNext]": ("/data", "data set"),
    "ResourceExhaustedError: /data/r.tfrecord; No space left on device": ("/data", "data set"),
    "RESOURCE_EXHAUSTED: /logs/train/events.out.tfevents.179.vm.8956.0.v2; No space left on "
    "device": ("/logs/train", "events"),
    ", filename = '/m/a.weights.h5', file descriptor = 3, errno = 28, error message = 'No space "
    "left on device', buf = 0x56": ("/m", "checkpoint"),
    "[enforce fail at inline_container.cc:671] . unexpected pos 576 vs 534": (None, "checkpoint"),
    "OSError: 100000 requested and 25584 written": (None, None),
    "OSError: [Errno 28] No space left on device": (None, None),
    "OSError: [Errno 28] No space left on device: '/data/a.npy'": ("/data", None),
    "OSError: [Errno 28] No space left on device: 'a.npy'": (".", None),
    "[Errno 28] No space left on device: '/old/a' -> '/new/a'": ("/new", None),
    "OSError: [Errno 28] No space left on device: '/home/me/.cache/hub/a'": (
        "/home/me/.cache/hub", "cache",
    ),
    "OSError: [Errno 122] Disk quota exceeded: '/home/me/a'": ("/home/me", None),
    "OSError: [WinError 112] There is not enough space on the disk: 'D:\\\\run\\\\a.npy'": (
        "D:\\run", None,
    ),
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device": (
        None, "packages",
    ),
    "cp: error writing '/backup/a': No space left on device": ("/backup", None),
    "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp']": (
        None, "temporary files",
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_folder_and_kind(text: str) -> None:
    """The folder is that of the file, one that stays; what is not said is None."""
    assert unwritten_in(["a line of another kind", text]) == WRITTEN[text]


@pytest.mark.parametrize(
    "text",
    [
        "", "OOM when allocating tensor with shape[9]", "[Errno 2] No such file: '/data/a'",
        "events.out.tfevents.1 written", "ptxas fatal : Unsupported .version",
    ],
)  # fmt: skip
def test_another_error_is_no_full_disk(text: str) -> None:
    """Files are named in many errors."""
    assert unwritten_in([text]) is None
    assert full_folder(text) is None


def test_only_xlas_own_files_stop_a_rehearsal() -> None:
    """A checkpoint that finds no room is the script's matter, the compiler's files are not."""
    for text in WRITTEN:
        assert (full_folder(text) is not None) == ("PTX" in text or "ptxas" in text), text
