"""A full disk: whose words they are, which folder it was, what was being written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.support.failures.full_disk import full_folder, unwritten_in

WRITTEN = yaml.safe_load(Path(__file__).with_name("full_disk.yaml").read_text(encoding="utf-8"))


def test_folder_and_kind() -> None:
    """The folder is that of the file, one that stays; what is not said is None."""
    for case in WRITTEN:
        found = unwritten_in(["a line of another kind", case["text"]])
        assert found == (case["folder"], case["kind"]), case["text"]


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
    for text in (case["text"] for case in WRITTEN):
        assert (full_folder(text) is not None) == ("PTX" in text or "ptxas" in text), text
