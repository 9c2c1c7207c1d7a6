"""The real JAX with CUDA on simulated GPUs: limits, growth, what scripts do in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.simcard import CardSpec, simulated_card
from tests.programs.on_card import SPEC, RunOnCard, environment_on

pytestmark = pytest.mark.slow(seconds=10)

_BEGIN = """
import gpuconf.auto, gpuconf, os, sys
import numpy, jax
def settings():
    return {s.name: [s.requested, s.effective, s.why_not] for s in gpuconf.activation().settings}
def limits():
    return [device.memory_stats()["bytes_limit"] for device in jax.devices()]
def planned():
    return [gpu.limit_of("jax").limit_bytes for gpu in gpuconf.activation().plan.gpus]
"""


_ASKING = """
FRACTIONS = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
[planned_name] = [name for name in FRACTIONS if name in os.environ]
[other_name] = set(FRACTIONS) - {planned_name}
def variable(name):
    return lambda asked: os.environ.update({name: asked})
def option(asked):
    jax.config.update("jax_pjrt_client_create_options", {"memory_fraction": float(asked)})
for kind, ask in (("variable", variable(planned_name)), ("other", variable(other_name)),
                  ("option", option)):
    for asked in (".95", ".125"):
        sys.stdout.flush()
        if os.fork() == 0:
            ask(asked)
            report(**{f"{kind} {asked}": [limits(), planned(), settings()]})
            os._exit(0)
        assert os.wait()[1] == 0
"""


def test_what_the_script_asks_for(run_on_card: RunOnCard) -> None:
    """By either variable or JAX's option: more than the plan is cut and said; less stays."""
    code = _BEGIN + _ASKING
    outcome = run_on_card(code, "half-card", frameworks=("jax",), JAX_PLATFORMS="cuda")
    for kind in ("variable", "other", "option"):
        limits, planned, _ = outcome.values[f"{kind} .95"]
        assert limits == planned, outcome.log
        assert len(limits) == 2
        limits, _, settings = outcome.values[f"{kind} .125"]
        assert limits == [SPEC.total_bytes // 8] * 2, kind
        assert [why for _, _, why in settings.values() if why] == [], kind
    assert outcome.log.count(".95, got 0.34") == 3


@pytest.mark.parametrize("platform", ["cuda", "cpu"])
def test_the_plan_is_that_of_the_first_backend(platform: str, run_on_card: RunOnCard) -> None:
    """Each way to it has the limit of the GPU as it is then, not as JAX's import found it.

    On a full GPU the shortage comes out of JAX's own call, and the next try plans again.
    """
    code = (
        _BEGIN
        + """
import time, jax.extend.backend
from jax._src import xla_bridge
from gpuconf.simcard.card import FILE_VARIABLE, Card
card = Card(os.environ[FILE_VARIABLE])
def use(mib):
    for index in range(2):
        card.set_desktop_bytes(mib << 20, index=index)
def held():
    return limits() if jax.default_backend() == "gpu" else planned()
use(6000)
time.sleep(1.1)  # the figures of the import are old by then
assert not xla_bridge._backends
for number, make_backend in enumerate((jax.devices, jax.extend.backend.get_backend,
                                       lambda: jax.numpy.zeros(3), lambda: jax.jit(abs)(1))):
    sys.stdout.flush()
    if os.fork() == 0:
        make_backend()
        report(**{f"way {number}": held()})
        os._exit(0)
    assert os.wait()[1] == 0
use(11000)
try:
    jax.devices()
except gpuconf.ShortageError as error:
    report(full=str(error))
use(6000)
jax.devices()
report(again=held())
use(1945)
"""
    )
    given = {"JAX_PLATFORMS": platform, "GPUCONF_SIMCARD_KERNELS": "skip"}
    outcome = run_on_card(code, frameworks=("jax",), **given)
    assert outcome.code == 0, outcome.log
    held = [(11264 - 6000 - 512 - 640) * MIB] * 2
    assert [outcome.values[f"way {number}"] for number in range(4)] == [held] * 4
    assert "not enough GPU memory" in outcome.values["full"]
    assert outcome.values["again"] == held


def test_cards_and_allocators_that_the_script_chooses_late(run_on_card: RunOnCard) -> None:
    """CUDA_VISIBLE_DEVICES after the import; an allocator without a cap; one that is none."""
    code = (
        _BEGIN
        + """
def child(work):
    sys.stdout.flush()
    if os.fork() == 0:
        try:
            work()
        except BaseException as error:
            print("ENDED", type(error).__name__, error, flush=True)
        os._exit(0)
    os.wait()
def narrowed():
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    report(narrowed=limits(), cards=[gpu.gpu.index for gpu in gpuconf.activation().plan.gpus])
def platform():
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    report(platform=limits(), settings=settings())
def option():
    print("by an option:", flush=True)
    jax.config.update("jax_pjrt_client_create_options", {"allocator": "platform"})
    jax.devices()
def unknown():
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "bestfit"
    jax.devices()
def own_choice():
    jax.config.update("jax_cuda_visible_devices", "1")
    report(own=limits(), own_settings=settings())
for work in (narrowed, platform, option, unknown, own_choice):
    child(work)
"""
    )
    outcome = run_on_card(code, "half-card", frameworks=("jax",), JAX_PLATFORMS="cuda")
    told = outcome.values
    assert told["cards"] == [1]
    assert len(told["narrowed"]) == 1
    assert told["narrowed"][0] < SPEC.total_bytes // 2
    _, effective, why = told["settings"]["jax cuda:0 memory limit"]
    assert effective == "11264 MiB"
    assert "without a limit" in why
    of_variable, _, of_option = outcome.log.partition("by an option:")
    assert of_variable.count("gpuconf: ") == 1  # with the plan, and not again for each GPU
    assert of_option.count("gpuconf: jax cuda:") == 2  # the plan does not know it
    assert "ENDED BackendError JAX cannot use the GPU: XLA_PYTHON_CLIENT_ALLOCATOR" in outcome.log
    assert list(filter(lambda name: "memory limit" in name, told["own_settings"])) == [
        "jax cuda:1 memory limit"
    ]


def test_too_late_names_the_line(run_on_card: RunOnCard) -> None:
    """JAX's client was there before gpuconf; nothing is set then."""
    code = """
import jax, os
before = dict(os.environ)
first = jax.devices()[0]
try:
    import gpuconf.auto
except Exception as error:
    report(kind=type(error).__name__, error=str(error), same=before == dict(os.environ))
import gpuconf
report(active=gpuconf.activation())
"""
    told = run_on_card(code, frameworks=("jax",), JAX_PLATFORMS="cuda").values
    assert (told["kind"], told["active"]) == ("TooLateError", None)
    assert "too late: JAX initialized its GPU client before gpuconf" in told["error"]
    assert "(first = jax.devices()[0])" in told["error"]
    assert told["same"]


def test_jax_without_a_gpu_leases_nothing(run_on_card: RunOnCard) -> None:
    """On the CPU, by its platform or for want of the plugin, it is given no memory of a GPU."""
    code = (
        _BEGIN
        + """
jax.devices()
from gpuconf.machine.leases.reading import read_with_leases
platform = jax.default_backend()
if os.fork() == 0:  # a process is not shown leases of its own
    report(leases=[len(gpu.leases) for gpu in read_with_leases().gpus], platform=platform)
    os._exit(0)
os.wait()
"""
    )
    on_cpu = run_on_card(code, frameworks=("jax",), JAX_PLATFORMS="cpu").values
    without = run_on_card(code).values
    on_gpu = run_on_card(code, frameworks=("jax",)).values
    assert on_cpu == without == {"platform": "cpu", "leases": [0, 0]}
    assert on_gpu == {"platform": "gpu", "leases": [1, 1]}


_AT_NIGHT = [pytest.param(total, marks=pytest.mark.nightly) for total in (8 * GIB, 11264 * MIB)]


@pytest.mark.parametrize("total", [25_438_126_080, *_AT_NIGHT])
def test_two_hundred_limits(total: int, tmp_path: Path) -> None:
    """What XLA's own allocator makes of each: never above the limit, at most 2 MiB below.

    The clients are JAX's, made as its bridge makes them, some 2 ms each.
    """
    code = """
import random, sys
from gpuconf.planner.frameworks import share_of
from jax._src import xla_bridge
client = xla_bridge.xla_client
xla_bridge._discover_and_register_pjrt_plugins()
client.initialize_pjrt_plugin("cuda")
total, below = int(sys.argv[1]), []
chance = random.Random(total)
for _ in range(200):
    limit = chance.randrange(4 << 20, total)
    options = {"platform_name": "cuda", "allocator": "default", "preallocate": False}
    made = client.make_c_api_client("cuda", {**options, "memory_fraction": share_of(limit, total)})
    below.append(limit - made.local_devices()[0].memory_stats()["bytes_limit"])
print("BELOW", min(below), max(below), len(below))
"""
    program = tmp_path / "limits.py"
    program.write_text(code, encoding="utf-8")
    with simulated_card(CardSpec(total_bytes=total)) as card:
        environ = {**environment_on(card, ("jax",)), "JAX_PLATFORMS": "cuda"}
        done = subprocess.run(
            [sys.executable, str(program), str(total)],
            env=environ, capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    [line] = [line for line in done.stdout.splitlines() if line.startswith("BELOW")] or [""]
    least, most, count = (int(word) for word in line.split()[1:])
    assert count == 200, done.stderr[-2000:]
    assert least >= 0
    assert most < 4 * MIB


def test_the_reserve_is_taken_on_each_card(run_on_card: RunOnCard) -> None:
    """Without a kernel, though the client is made while JAX traces a function."""
    code = (
        _BEGIN
        + """
jax.make_jaxpr(lambda x: (jax.devices(), x)[1])(numpy.ones(3))
report(pools=[device.memory_stats()["pool_bytes"] for device in jax.devices()])
report(lines=[str(each) for each in gpuconf.activation().settings])
"""
    )
    outcome = run_on_card(code, "shared-desktop", frameworks=("jax",))
    assert outcome.values["pools"] == [GIB, GIB], outcome.log
    assert "reserve of jax cuda:1: 1024 MiB" in outcome.values["lines"]


@pytest.mark.nightly
def test_an_older_jax_is_set_only_what_it_knows(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """JAX 0.4.38: its limits are the plan's, and what it lacks is one line each.

    It has no `vmm` allocator, where JAX itself would compute on the CPU, and no way to allocate a
    reserve.
    """
    older = ("jax-0.4.38",)
    code = _BEGIN + "report(limits=limits(), planned=planned(), version=jax.__version__)\n"
    half = run_on_card(code, "half-card", frameworks=older)
    assert half.code == 0, half.log
    assert half.values["version"] == "0.4.38"
    below = [
        planned - limit
        for planned, limit in zip(half.values["planned"], half.values["limits"], strict=True)
    ]
    assert [0 <= each < 4 * MIB for each in below] == [True, True]
    assert "gpuconf: " not in half.log

    code = """
try:
    jax.devices()
except gpuconf.BackendError as error:
    report(error=error.message)
"""
    profile = write_profile("extends: half-card\njax: {allocator: vmm}\n")
    refused = run_on_card(_BEGIN + code, profile, frameworks=older)
    assert refused.values["error"].startswith(
        "JAX cannot use the GPU: XLA_PYTHON_CLIENT_ALLOCATOR env var must be "
    )
    assert 'got "vmm"' in refused.values["error"]

    reserve = run_on_card(_BEGIN + "jax.devices()\nreport(found=settings())\n", frameworks=older)
    assert reserve.code == 0, reserve.log
    requested, effective, why = reserve.values["found"]["reserve of jax cuda:0"]
    assert (requested, effective) == ("1024 MiB", None)
    assert why == "allocating it requires jax.ffi, which JAX added in 0.5"
    assert "gpuconf: " not in reserve.log
