"""``%gpuconf``: each command in a notebook and in a terminal, and one clear error for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.ipython.magic import HELP
from gpuconf.support.command_line import COMMANDS
from tests.ipython.shells import Cell, run_cells
from tests.machine.cards import standin
from tests.programs.processes import Nvml
from tests.support.reporting.outline import Outline, check_harmless

pytestmark = pytest.mark.slow  # waits for programs

CARD = standin.Card(
    standin.uuid(0), "NVIDIA <b>RTX</b> 2080 Ti", total=11264 * MIB, reserved=0, used=1945 * MIB
)
LOG = "CUDA_ERROR_OUT_OF_MEMORY: out of memory\nCUDNN_STATUS_ALLOC_FAILED\n"
GOOD = {
    "empty": "%gpuconf",
    "help": "%gpuconf help plan",
    "nothing chosen": "%gpuconf profile",
    "nothing failed": "%gpuconf explain",
    "ps": "%gpuconf ps",
    "plan": "%gpuconf plan half-card",
    "changed plan": "%gpuconf plan half-card --set memory.memory_limit=3GiB",
    "json": "%gpuconf plan half-card --json",
    "doctor": "%gpuconf doctor driver environment",
    "checks": "%gpuconf doctor --list-checks driver",
    "log": "%gpuconf explain train.log",
    "page": "%gpuconf docs rehearse",
    "profiles": "%gpuconf profiles list",
    "chosen": "%gpuconf profile half-card --set memory.keep_free=256MiB",
    "shown": "%gpuconf profile",
    "slip": "no_such_name",
    "slip explained": "%gpuconf explain",
}
# A mistake, and what stands in its error and hint.
BAD = {
    "%gpuconf exlain": ("does not recognize 'exlain'", "`%gpuconf explain`"),
    "%gpuconf plan --jsn": ("does not recognize '--jsn'", "`%gpuconf plan --json`"),
    "%gpuconf plan half-crad": ('no profile named "half-crad"', "half-card"),
    "%gpuconf plan one two": ("", "%gpuconf plan --help"),
    "%gpuconf profile nope": ('no profile named "nope"', "gpuconf profiles list"),
    "%gpuconf profile --set x": ("--set x", "--set memory.memory_limit=4GiB"),
    '%gpuconf profile "': ("No closing quotation", "close"),
    "%gpuconf run -- python x.py": ("must run in a terminal", "!gpuconf run -- python x.py"),
    "%gpuconf shell": ("must run in a terminal", "!gpuconf shell"),
    "%gpuconf explain none.log": ("there is no file none.log", "save the run's output"),
    "%gpuconf explain -": ("no standard input", "%gpuconf explain train.log"),
    "%gpuconf doctor --profile nope": ('no profile named "nope"', ""),
    "%gpuconf doctor nonsense": ("nonsense", ""),
    "%gpuconf ps --watch": ("terminal", ""),
    "%gpuconf estimate": ("there is no Keras model", "%gpuconf estimate model"),
    "%gpuconf estimate modle": ("no variable modle", "%gpuconf estimate model"),
    "%gpuconf estimate train.py": ("is a file", "!gpuconf estimate train.py"),
    "%gpuconf estimate number": ("is not a Keras model", ""),
    "%gpuconf estimate number.real.x": ("has no attribute 'x'", ""),
    "%gpuconf docs explian": ("no page 'explian'", "gpuconf docs explain"),
    "%gpuconf plan --processes 2": ("one process", "!gpuconf plan --processes 2"),
}


@pytest.fixture(scope="module")
def environ(nvml: Nvml) -> dict[str, str]:
    """One GPU, whose name would be markup."""
    return nvml(standin.Machine((CARD,)))


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> dict[str, Cell]:
    """What every command shows in one notebook, in this order."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "train.log").write_text(LOG, encoding="utf-8")
    return dict(zip(GOOD, run_cells(folder, *GOOD.values(), environ=environ), strict=True))


def test_help_lists_what_there_is(cells: dict[str, Cell]) -> None:
    """Each command with its line; the others are named as those of a terminal."""
    for name in HELP:
        assert f"\n  {name} " in cells["empty"].out
    for name in COMMANDS:
        assert name in cells["empty"].out
    assert cells["help"].out.startswith("usage: %gpuconf plan")


def test_a_profile_is_shown_and_chosen(cells: dict[str, Cell]) -> None:
    """Before: what would apply, and which there are. After: the activation, with the change."""
    before = Outline(cells["nothing chosen"].html).text
    assert "no profile is active in this kernel" in before
    assert "half-card" in before
    for shown in cells["chosen"], cells["shown"]:
        assert "profile half-card" in Outline(shown.html).text
        assert "profile half-card" in shown.text
        assert "✓" in shown.html


def test_answers_are_drawn(cells: dict[str, Cell]) -> None:
    """As HTML without the GPU's markup, and as the command's text for other front ends."""
    for name in ("plan", "log", "changed plan", "chosen"):
        check_harmless(cells[name].html)
        assert "<b>RTX" not in cells[name].html
        assert cells[name].out + cells[name].err == ""
    assert "fraction 0.35 × 11264 MiB total = 3942 MiB" in Outline(cells["plan"].html).text
    assert "memory_limit 3072 MiB" in cells["changed plan"].text
    assert "cudnn-handle-alloc" in cells["log"].text


def test_ps_and_doctor_print(cells: dict[str, Cell]) -> None:
    """What another process prints, in colors, which notebooks show."""
    for name, words in (("ps", "GPU  NAME"), ("doctor", "driver.")):
        assert words in cells[name].out.replace("\x1b[1m", "")
        assert "\x1b[1m" in cells[name].out
        assert (cells[name].err, cells[name].displays, cells[name].error) == ("", [], "")


def test_other_forms_are_the_commands_own(cells: dict[str, Cell]) -> None:
    """JSON, lists and pages come as the command line gives them."""
    assert json.loads(cells["json"].out)["profile"] == "half-card"
    assert "driver.present" in cells["checks"].out
    assert "shared-desktop" in cells["profiles"].out
    assert cells["page"].displays[-1]["text/markdown"].startswith("# ")


def test_the_last_error_is_explained(cells: dict[str, Cell]) -> None:
    """Nothing to explain is an error of its own; a slip of the keyboard is no matter of a GPU."""
    assert cells["nothing failed"].error == "UsageError"
    assert "no cell of this notebook has failed" in cells["nothing failed"].out
    assert cells["slip"].displays == []
    assert "NameError" in Outline(cells["slip explained"].html).text


def test_a_mistake_is_one_clear_error(tmp_path: Path, environ: dict[str, str]) -> None:
    """What is wrong and a hint, no traceback; and the cell has failed, so that `Run all` stops."""
    first, *found = run_cells(tmp_path, "number = 7", *BAD, environ=environ)
    assert first.error == ""
    for (line, (said, hint)), cell in zip(BAD.items(), found, strict=True):
        shown = cell.out + cell.err
        assert cell.error, line
        assert "Traceback" not in shown, line
        assert shown.count("gpuconf: error: ") == 1, line
        assert said in shown, line
        assert hint in shown.partition("hint: ")[2], line
        assert cell.displays == [], line


def test_a_terminal_gets_text(tmp_path: Path, environ: dict[str, str]) -> None:
    """IPython without HTML prints what the command line prints, and nothing is displayed."""
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    lines = ("%gpuconf ps", "%gpuconf plan half-card", "%gpuconf explain train.log",
             "%gpuconf profile half-card", "import gpuconf; gpuconf.plan()")  # fmt: skip
    ps, plan, log, profile, value = run_cells(tmp_path, *lines, environ=environ, is_terminal=True)
    assert "GPU  NAME" in ps.out
    assert "limit = min(" in plan.out
    assert "cudnn-handle-alloc" in log.out
    assert "profile half-card" in profile.out
    assert "limit = min(" in value.out
    for cell in (ps, plan, log, profile):
        assert cell.displays == []
        assert cell.error == ""


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "notebook"])
def test_a_session_sees_its_own_lease(
    tmp_path: Path, environ: dict[str, str], is_terminal: bool
) -> None:
    """As other programs see it, in every form; and the doctor does not take it for another's."""
    lines = (
        "%gpuconf profile half-card",
        "import gpuconf.session.configure as b; b._binding.bind(lambda plan: None)",
        "%gpuconf ps",
        "%gpuconf ps --json",
        "%gpuconf doctor profile cards.memory",
        "%gpuconf doctor --json profile",
        "%gpuconf plan --json",
        "%gpuconf ps --watch",
    )
    leases = {"GPUCONF_LEASES": str(tmp_path / "leases")}
    cells = run_cells(tmp_path, *lines, environ=environ | leases, is_terminal=is_terminal)
    ps, found, doctor, report, plan = (cell for cell in cells[2:7])
    (gpu,) = json.loads(plan.out)["gpus"]
    (holding,) = json.loads(found.out)["gpus"][0]["processes"]
    assert holding["profile"] == "half-card"
    assert holding["lease_bytes"] == gpu["lease_bytes"]
    said, examined = ps.out, doctor.out
    assert f"half-card  {gpu['lease_bytes'] // MIB} MiB " in said
    assert json.loads(report.out)["profile"]["because"] == "this session chose it"
    assert {each["status"] for each in json.loads(report.out)["findings"]} == {"ok"}
    assert "(this session chose it)" in examined
    assert [cell.error for cell in cells] == [""] * 7 + ["GpuconfError"]
    assert (cells[7].out + cells[7].err).count("gpuconf: error: --watch draws in a terminal") == 1


def test_hints_are_for_a_cell(tmp_path: Path, environ: dict[str, str]) -> None:
    """What a session keeps, what it refuses, and what the doctor says: each can be pasted."""
    environ = environ | {"TF_FORCE_GPU_ALLOW_GROWTH": "false"}
    lines = ("import gpuconf.auto; print(gpuconf.activation())",
             "%env GPUCONF_DISABLE=1", "%gpuconf doctor environment.disabled",
             "%env GPUCONF_DISABLE=maybe", "%gpuconf profile half-card")  # fmt: skip
    kept, _, doctor, _, refused = run_cells(tmp_path, *lines, environ=environ)
    assert 'os.environ.pop("TF_FORCE_GPU_ALLOW_GROWTH", None)` to use' in kept.out
    assert 'import os; os.environ.pop("GPUCONF_DISABLE", None)' in doctor.out
    assert "hint: %env GPUCONF_DISABLE=1" in refused.out + refused.err


def test_a_bug_is_said_to_be_one(tmp_path: Path) -> None:
    """With the traceback, which a report needs."""
    spoil = "import gpuconf.session.configure as b\nb.plan = None"
    _, cell = run_cells(tmp_path, spoil, "%gpuconf plan")
    assert cell.error == "TypeError"
    assert "this is a bug in gpuconf" in cell.err
    assert "Traceback" in cell.out
