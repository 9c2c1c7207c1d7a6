"""Values in notebooks: what is shown, that names are text and never markup, and ``str`` as ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuconf.basics.setting import Setting
from gpuconf.basics.units import GIB, MIB, sized
from gpuconf.commands.explain import explain
from gpuconf.commands.ps.document import CardHoldings, Holding, Holdings, LeaseBar, LedgerState
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
    """The plan of a card that a process holds."""
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
    """A card with a lease on it."""
    bar = LeaseBar(GIB, 2 * GIB, 3 * GIB, 4 * GIB)
    process = Holding(7, name, name, name, 5 * GIB, 2 * GIB, "2026-11-22T14:02:33+00:00")
    cards = (CardHoldings("0", 0, uuid="GPU-1", name=name, bar=bar, processes=(process,)),)
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
    """As IPython asks for it."""
    made: str = value._repr_html_()  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("value", HARMS.values(), ids=HARMS)
def test_what_means_harm_is_shown_as_text(value: object) -> None:
    """Processes, cards, profiles, layers and lines of logs may be called what they like."""
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


def test_a_plan() -> None:
    """The bar is the whole card, and the sum of the limit stands below it."""
    given = planned()
    made = html(given)
    text = Outline(made).text
    limit = sized(given.gpus[0].limit_bytes or 0)
    for words in (
        "profile shared-desktop",
        "GPU 0 NVIDIA GeForce RTX 2080 Ti",
        "in use 1945 MiB",
        f"limit {limit}",
        "fraction 0.7 × 11264 MiB total = 7884 MiB",
        "TF_FORCE_GPU_ALLOW_GROWTH=true",
    ):
        assert words in text
    shares = [float(share) for share in re.findall(r"width:([\d.]+)%", made)]
    assert sum(shares) == pytest.approx(100, abs=0.05)


def test_a_card_without_figures_has_no_bar() -> None:
    """Unknown is not drawn as nothing."""
    silent = plan(SHARED_DESKTOP, card(free=None))
    made = html(silent)
    assert 'class="bar"' not in made
    assert "free now unknown" in Outline(made).text


def test_an_activation() -> None:
    """Each setting with its fate; a plan that is still to come is said to be."""
    text = Outline(html(activated())).text
    assert "ok memory_limit GPU:0 5734 MiB" in text
    assert "pending TF_FORCE_GPU_ALLOW_GROWTH" in text
    assert "differs session asked 0.5, got 0.9" in text
    assert "free when planned 9319 MiB" in text
    early = Outline(html(Activation(SHARED_DESKTOP))).text
    assert "no plan yet" in early
    assert "GPUCONF_DISABLE" in Outline(html(Activation(disabled="GPUCONF_DISABLE=1"))).text


def test_holdings() -> None:
    """Who holds what, under the card's bar."""
    text = Outline(html(held())).text
    assert "others 1024 MiB" in text
    assert "7 train.py train.py train.py 5120 MiB 2048 MiB" in text


def test_a_report() -> None:
    """Each problem with its fix, and cards by the numbers that the page gives them."""
    text = Outline(html(FULL)).text
    assert "FAIL cards.leftover" in text
    assert "kill -9 4242" in text
    assert "GPU 1.0 MIG 1g.10gb" in text


def test_a_diagnosis() -> None:
    """The cause, the tensor, and what to change, each with something to paste."""
    diagnosis = explain(LOG.replace(SCRIPT, "x"))
    text = Outline(html(diagnosis)).text
    assert text.startswith("no room on the card for a tensor (oom-device-tensor): the run failed")
    assert "[64, 4096, 4096] float32 = 4096 MiB" in text
    assert "%gpuconf docs causes/oom-device-tensor" in text
    for proposal in diagnosis.proposals:
        assert " ".join(proposal.title.split()) in text
        assert " ".join(proposal.paste.split()) in text


def test_an_estimate() -> None:
    """The answer, the layers, and what would save memory where it does not fit."""
    text = Outline(html(estimates.estimate(**estimates.TOO_LARGE))).text
    assert "does not fit 900 MiB; the largest batch that does is 24" in text
    assert "stays between steps 300 MiB" in text
    assert "stem/conv" in text
    for advice in estimates.ADVICE:
        assert advice.change in text
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
    ours = {"gpuconf.ipython", "gpuconf.basics.display", "gpuconf.support.reporting.html"}
    late = {*ours, "IPython"}
    assert not late & set(sys.modules), late & set(sys.modules)
    assert str(made).startswith("profile cpu-only")
    assert "no GPU" in made._repr_html_()
    assert late - {"IPython"} <= set(sys.modules)
    """
    run_python(program, tmp_path, environ={"GPUCONF_PROFILE": "cpu-only"})
