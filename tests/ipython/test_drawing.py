"""Values in notebooks: what is shown, that names are text and never markup, and ``str`` as ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuconf.basics.setting import Setting
from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.explain import explain
from gpuconf.commands.ps.document import GpuUsage, Holdings, LeaseBar, LedgerState, ProcessUsage
from gpuconf.machine.cards.inventory import GpuProcess
from gpuconf.planner import Plan
from gpuconf.session.activation import Activation
from tests.commands.doctor.page.page_reports import FULL, HARMFUL
from tests.commands.estimate import estimates
from tests.planner.cards import SHARED_DESKTOP, card, plan
from tests.programs.processes import run_python
from tests.support.reporting.outline import Outline, check_harmless

SCRIPT = "<script>fetch('http://127.0.0.1:9')</script>\x1b[2J\u202e"
LOG = (
    f"Allocator (GPU_0_bfc) ran out of memory {SCRIPT}\n"
    "ResourceExhaustedError: OOM when allocating tensor with shape[64,4096,4096] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Fill] "
    f"[[{{{{node {SCRIPT}}}}}]]\n"
)


def planned(name: str = "NVIDIA GeForce RTX 2080 Ti", profile: str = "shared-desktop") -> Plan:
    """The plan of a GPU that a process holds."""
    process = GpuProcess(42, used_bytes=1945 * MIB, name=name, kind="compute")
    gpu = card()._replace(name=name, processes=(process,))
    return plan(SHARED_DESKTOP._replace(name=profile), gpu)


def activated(profile: str = "shared-desktop", text: str = "5734 MiB") -> Activation:
    """An Activation with a plan and settings of every status."""
    made = Activation(SHARED_DESKTOP._replace(name=profile))
    settings = [
        Setting("memory_limit GPU:0", text, text),
        Setting("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
        Setting("session", "0.5", "0.9", f"the script set {text}"),
    ]
    made.put_in_force(planned(profile=profile), {"A": text}, settings)
    return made


def held(name: str = "train.py") -> Holdings:
    """A GPU with a lease on it."""
    bar = LeaseBar(GIB, 2 * GIB, 3 * GIB, 4 * GIB)
    process = ProcessUsage(7, name, name, name, 5 * GIB, 2 * GIB, "2026-11-22T14:02:33+00:00")
    cards = (GpuUsage("0", 0, uuid="GPU-1", name=name, bar=bar, processes=(process,)),)
    return Holdings("2026-11-22T14:02:33+00:00", cards, ledger=LedgerState("/run/gpuconf"))


HARMLESS = {
    "plan": planned(),
    "activation": activated(),
    "holdings": held(),
    "diagnosis": explain(LOG.replace(SCRIPT, "x")),
    "estimate": estimates.estimate(**estimates.TOO_LARGE),
    "report": FULL,
}
LAYERS = (estimates.LAYERS[0]._replace(layer=SCRIPT), *estimates.LAYERS[1:])
HARMS = {
    "plan": planned(SCRIPT, SCRIPT),
    "activation": activated(SCRIPT, SCRIPT),
    "holdings": held(SCRIPT),
    "diagnosis": explain(LOG),
    "estimate": estimates.estimate(layers=LAYERS, notes=(SCRIPT,)),
    "report": HARMFUL,
}


def html(value: object) -> str:
    """As IPython requests it."""
    made: str = value._repr_html_()  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("value", HARMS.values(), ids=HARMS)
def test_what_means_harm_is_shown_as_text(value: object) -> None:
    """Processes, GPUs, profiles, layers and lines of logs may be called what they like."""
    made = html(value)
    check_harmless(made)
    assert "&lt;script&gt;" in made
    assert "\x1b" not in made
    assert "\u202e" not in made


@pytest.mark.parametrize("value", HARMLESS.values(), ids=HARMLESS)
def test_a_display_is_small_and_styles_only_itself(value: object) -> None:
    """A notebook keeps every output: some kilobytes, and classes that have rules."""
    made = html(value)
    check_harmless(made)
    assert len(made) < 16_000
    sheet, body = made.split("</style>")
    used = {name for names in re.findall(r'class="([^"]*)"', body) for name in names.split()}
    assert {name for name in used if f".{name}" not in sheet} == set()


def test_what_a_report_says_is_drawn() -> None:
    """The lines of the command's text, in its styles; more of it behind a click."""
    for name, words in {
        "plan": ["profile shared-desktop", "fraction 0.7 × 11264 MiB total = 7884 MiB",
                 "TF_FORCE_GPU_ALLOW_GROWTH=true"],
        "activation": ["5734 MiB", "requested 0.5, got 0.9"],
        "holdings": ["train.py", "5120 MiB"],
        "diagnosis": ["[64, 4096, 4096] float32 = 4096 MiB", "gpuconf docs causes/"],
        "estimate": ["does not fit in 900 MiB; the largest batch that does is 24", "stem/conv"],
        "report": ["FAIL", "cards.leftover", "kill -9 4242", "MIG 1g.10gb"],
    }.items():  # fmt: skip
        text = Outline(html(HARMLESS[name])).text
        assert [each for each in words if each not in text] == [], name
    assert "everything" in Outline(html(HARMLESS["report"])).text
    assert 'class="bold red"' in html(HARMLESS["diagnosis"])
    for others in (estimates.BARE, estimates.FITS, estimates.HOPELESS, estimates.INFERENCE):
        check_harmless(html(estimates.estimate(**others)))


@pytest.mark.parametrize("name", HARMS)
def test_text_is_for_terminals(name: str) -> None:
    """What a notebook without HTML shows is the command's report, and moves no cursor."""
    written: list[str] = []

    class Printer:
        text = written.append

    value = HARMS[name]
    if name == "activation":  # its repr is its text, as ever
        return
    value._repr_pretty_(Printer(), False)  # type: ignore[attr-defined]
    (text,) = written
    assert name != "plan" or text == str(value)  # what print() shows
    assert "\x1b" not in text
    assert len(text.splitlines()) > 1


def test_nothing_is_loaded_before_it_is_shown(tmp_path: Path) -> None:
    """Neither the values nor a plan bring what draws them; a plan's ``str`` is the command's."""
    program = """
    import sys
    import gpuconf.auto, gpuconf
    made, found = gpuconf.plan(), gpuconf.explain("CUDNN_STATUS_ALLOC_FAILED")
    assert "(cudnn-handle-alloc)" in str(found)
    assert str(gpuconf.activation()).startswith("profile cpu-only")
    assert repr(made).startswith("Plan(")
    ours = {"gpuconf.ipython", "gpuconf.support.reporting.html"}
    late = {*ours, "IPython"}
    assert not late & set(sys.modules), late & set(sys.modules)
    assert str(made).startswith("profile cpu-only")
    assert "no GPU" in made._repr_html_()
    assert late - {"IPython"} <= set(sys.modules)
    """
    run_python(program, tmp_path, environ={"GPUCONF_PROFILE": "cpu-only"})
