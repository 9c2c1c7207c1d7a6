"""`make legacy`: the interpreter it needs is named, and a broken promise is never passed over."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.acceptance import legacy
from tests.acceptance.legacy import Stack, Step

STACK = legacy.STACKS["1.8"]
CREATED = (
    "I gpu.cc:1] Created TensorFlow device (/device:GPU:0 with {} MB memory) -> physical GPU\n"
)
OUT_OF_MEMORY = (
    "E cuda.cc:9] failed to allocate 7.20G (77 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY\n"
)
REFUSED = "gpuconf simulated GPU: the program launched the GPU kernel\n  void f()\n"
CAPPED = "gpuconf: train.py:4: requested 0.9 of the GPU, got 0.25\n"


def test_what_is_missing_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    """No interpreter of that version anywhere: its name, where it was looked for, and commands."""
    nothing = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    with pytest.raises(legacy.LegacyError, match=r"needs Python 3\.6 .*\$PYTHON36") as caught:
        legacy.find_python(STACK, nothing)
    assert "pyenv install 3.6" in str(caught.value)
    assert "conda create -n py3.6 python=3.6" in str(caught.value)
    # A named one of another version is not taken, and no other is looked for.
    with pytest.raises(legacy.LegacyError):
        legacy.find_python(STACK, {**nothing, "PYTHON36": sys.executable})


def test_an_interpreter_is_found_by_its_variable_and_by_its_folder(tmp_path: Path) -> None:
    """$PYTHON…, and the folders of pyenv and conda, by the interpreter that runs this."""
    mine = Stack("this one", sys.version_info[:2], ".venv-mine", ())
    environ = {"PATH": "", "HOME": str(tmp_path)}
    assert legacy.find_python(mine, {**environ, mine.variable: sys.executable}) == sys.executable
    version = "{}.{}".format(*mine.python)
    for folder in (f".pyenv/versions/{version}.1", "miniconda3/envs/old"):
        link = tmp_path / folder / "bin" / mine.interpreter
        link.parent.mkdir(parents=True)
        link.symlink_to(sys.executable)
        assert legacy.find_python(mine, environ) == str(link)
        link.unlink()


@pytest.mark.parametrize(
    ("output", "faults"),
    [
        (CREATED.format(7372) + OUT_OF_MEMORY, 0),
        (CREATED.format(7372), 1),
        (CREATED.format(2048) + OUT_OF_MEMORY, 1),
        ("", 2),
    ],
)
def test_alone_the_card_must_be_too_small(output: str, faults: int) -> None:
    """0.9 of the GPU and the error itself: each missing one is a fault."""
    assert len(legacy.alone_faults(Step(0, output))) == faults


@pytest.mark.parametrize(
    ("code", "output", "faults"),
    [
        (0, CREATED.format(2048) + CAPPED, 0),
        (1, CREATED.format(2048) + CAPPED, 1),
        (0, CREATED.format(2049) + CAPPED, 1),
        (0, CREATED.format(2048), 1),
        (0, CREATED.format(2048) + CAPPED * 2, 1),
        (0, CREATED.format(2048) + CAPPED + OUT_OF_MEMORY, 1),
        (134, "", 3),
    ],
)
def test_under_run_it_must_be_capped_and_say_so(code: int, output: str, faults: int) -> None:
    """Exit code, limit, silence of CUDA and the one line: each missing one is a fault."""
    step = Step(code, output)
    found = legacy.capped_faults(step)
    assert len(found) == faults
    shown = legacy.shown(["python", "x.py"], step, found)
    assert shown.count("Not as promised") == faults
    assert f"(exit code {code})" in shown


@pytest.mark.parametrize(
    ("code", "output", "faults"),
    [(-6, REFUSED, 0), (0, REFUSED, 1), (-6, "", 1), (0, "RESULT [0. 0.]\n", 2)],
)
def test_a_kernel_must_be_refused_aloud(code: int, output: str, faults: int) -> None:
    """A program that continues, with or without a number, and one that ends silently."""
    assert len(legacy.kernel_faults(Step(code, output))) == faults


def test_a_stack_that_cannot_be_installed_fails_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 1 and the reason, also where another stack went well; nothing is written."""
    monkeypatch.setitem(legacy.STACKS, "1.8", STACK._replace(folder=".venv-never-made"))
    monkeypatch.setenv("PYTHON36", str(tmp_path / "no-python"))
    page = tmp_path / "page.md"
    assert legacy.main(["1.8", "--write", str(page)]) == 1
    assert "needs Python 3.6" in capsys.readouterr().err
    assert not page.exists()
