"""What to change where a disk of the host is full: by what was being written, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.commands.explain import Diagnosis, explain

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    {}\n{}'
FULL = "No space left on device"
RAISED = "OSError: [Errno 28] No space left on device"
CASES = yaml.safe_load(Path(__file__).with_name("full_disk.yaml").read_text(encoding="utf-8"))


def pasted(diagnosis: Diagnosis) -> list[str]:
    """What is to be pasted, in order."""
    return [each.paste for each in diagnosis.proposals]


@pytest.mark.parametrize("name", CASES)
def test_the_advice_is_of_what_was_written(name: str) -> None:
    """First see the disk, then another place for this kind of file; never a smaller batch."""
    found = explain(CASES[name]["log"])
    assert found.cause == "disk-full"
    first, second, *_ = pasted(found)
    assert first.startswith("df -h")
    assert CASES[name]["second"] in second
    assert not [each for each in found.proposals if each.kind == "batch"]


def test_the_folder_is_named() -> None:
    """As a word of the shell, in the report and in what is pasted."""
    found = explain(f"{RAISED}: '/my data/a.npy'")
    assert pasted(found)[0] == "df -h '/my data'; df -i '/my data'"
    assert "  full folder          /my data" in str(found).splitlines()
    unknown = explain(RAISED)
    assert pasted(unknown)[0] == "df -h; df -i"
    assert "does not name the file" in unknown.proposals[0].reason


def test_a_quota_is_asked_for() -> None:
    """`df` shows room where the user has none left."""
    found = explain("OSError: [Errno 122] Disk quota exceeded: '/home/me/a'")
    assert pasted(found)[0] == "df -h /home/me; df -i /home/me; quota -s"


def test_windows_has_no_df() -> None:
    """Its drives are listed by PowerShell."""
    found = explain("OSError: [WinError 112] There is not enough space on the disk: 'D:\\\\a\\\\b'")
    assert pasted(found)[0].startswith("Get-PSDrive")


def test_without_xla_only_where_keras_compiles() -> None:
    """A function that the user compiles is not compiled by Keras."""
    error = f"ResourceExhaustedError: /t/a; {FULL}\n\tUnable to write PTX contents to: /t/a"
    of_keras = explain(TRACEBACK.format("model.fit(x, y)", error))
    of_user = explain(TRACEBACK.format("waves(x)", error))
    assert ["jit_compile=False" in pasted(each)[-1] for each in (of_keras, of_user)] == [
        True,
        False,
    ]


def test_a_file_is_missing_though_the_run_went_on() -> None:
    """The one advice that a survived error keeps."""
    epochs = "\n".join(f"Epoch {n}/9\n{n}/9 [====] - 1s 20ms/step" for n in range(1, 9))
    found = explain(f"W x.cc:1] OP_REQUIRES failed: RESOURCE_EXHAUSTED: /c/a; {FULL}\n{epochs}")
    assert (found.severity, pasted(found)[0]) == ("warning-only", "df -h /c; df -i /c")
