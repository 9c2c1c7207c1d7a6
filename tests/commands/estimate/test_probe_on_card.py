"""The probe's child with real TensorFlow: what it measures, how it fails, that nothing is left."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.estimate.calibration import CardProbe
from gpuconf.commands.estimate.memory_estimate import GPU, SIMULATED_CARD
from gpuconf.commands.estimate.probe.measuring import measure
from gpuconf.commands.estimate.probe.order import Order
from gpuconf.errors import BackendError, GpuconfError, MissingDependencyError
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.simcard import bridge_for_command, simulated_card
from tests.programs import warm
from tests.programs.card_clients import STORY, wait_until
from tests.programs.processes import Start, clean_environment, run

pytestmark = pytest.mark.slow


_MODULE = """
import os, signal, time
import keras

def dense():
    print("made")
    model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(2048), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    return model

def wide():
    layers = [keras.Input((64,)), keras.layers.RepeatVector(2_000_000),
              keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)]
    return keras.Sequential(layers)

def words():
    layers = [keras.Input((16,), dtype="int32"), keras.layers.Embedding(50000, 64),
              keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(7, activation="softmax")]
    model = keras.Sequential(layers)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def endless():
    time.sleep(600)

class Broken(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        raise ArithmeticError("of the model")

def broken():
    return Broken()
"""

Measure = Callable[..., CardProbe]


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """After every test: no process of a probe, and no simulated GPU of ours."""
    # Of these tests alone: others may be probing in the same checkout, or hold a GPU for long.
    before = our_cards()
    yield
    assert not [pid for pid, environ in environments() if f"HOME={tmp_path}" in environ]
    assert our_cards() <= before


def our_cards() -> set[Path]:
    """The simulated GPUs that this process has made."""
    return set(Path("/dev/shm").glob(f"gpuconf-simcard-{os.getpid()}-*"))


def environments() -> Iterator[tuple[int, list[str]]]:
    """The living processes of probes, and their environments."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                environ = (folder / "environ").read_text(errors="replace").split("\0")
                if any(each.startswith("GPUCONF_FAMILY=") for each in environ):
                    yield int(folder.name), environ


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user's environment at home in a fresh folder, but with what is built here already.

    What it starts shares an import of TensorFlow; what a command starts in turn does not.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return clean_environment(tmp_path, {"XDG_CACHE_HOME": cache, warm.VARIABLE: "1"})


@pytest.fixture
def probe(
    tmp_path: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    libraries: Path,  # noqa: ARG001  # for its skip
) -> Measure:
    """Measure a function of the module above at batches 2 and 4, by default without a GPU."""
    (tmp_path / "models.py").write_text(_MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def begin(name: str, *, order: dict[str, Any] | None = None, **options: Any) -> CardProbe:
        asked = Order(f"models:{name}", str(tmp_path), (2, 4))._replace(**(order or {}))
        given = {"environ": environ, "inventory": Inventory(), "timeout_s": 120, **options}
        return measure(asked, progress=lambda _: None, **given)

    return begin


@contextmanager
def refused(kind: type[GpuconfError] = BackendError) -> Iterator[list[GpuconfError]]:
    """The one error, which has a hint; exit code 4 where something is not installed, else 1."""
    found: list[GpuconfError] = []
    with pytest.raises(kind) as caught:
        yield found
    found.append(caught.value)
    assert caught.value.hint
    assert caught.value.exit_code == (4 if kind is MissingDependencyError else 1)


def test_what_tensorflow_takes_for_a_gpu_is_the_gpu(
    probe: Measure, environ: dict[str, str]
) -> None:
    """With a GPU in sight the child is on it, under the profile, and the tier says so.

    Inference has the weights alone, at another batch as ordered.
    """
    bridge = bridge_for_command([sys.executable])
    inventory = Inventory((Gpu(0),))
    with simulated_card(STORY) as card:
        on_card = card.environment(environ, bridge=bridge)
        how = {"environ": on_card, "inventory": inventory, "profile": "shared-desktop"}
        made = probe("dense", order={"training": False, "batch_sizes": (64,)}, **how)
        assert made.tier == GPU
        ((batch_size, peak_bytes),) = made.measured
        assert batch_size == 64
        assert 4 * MIB <= peak_bytes < 8 * MIB, "the weights, and no state of an optimizer"
        card.set_desktop_bytes(STORY.total_bytes - 100 * MIB)
        with refused() as errors:
            probe("dense", **how)
    assert "the probe on the GPU failed" in errors[0].message
    assert "free" in errors[0].message


def test_a_gpu_that_tensorflow_does_not_use(probe: Measure, environ: dict[str, str]) -> None:
    """Then the GPU is a simulated one, and a note says so.

    Words are of the vocabulary, classes of the output: on the CPU others would be an error.
    """
    hidden = {**environ, "CUDA_VISIBLE_DEVICES": "-1"}
    order = {"optimizer": "sgd"}
    made = probe("words", order=order, environ=hidden, inventory=Inventory((Gpu(0),)))
    assert (made.tier, "Simulated" in made.card) == (SIMULATED_CARD, True)
    small, large = made.measured
    assert (small.batch_size, large.batch_size) == (2, 4)
    assert small.peak_bytes <= large.peak_bytes
    assert any("gpuconf doctor" in note for note in made.notes)


def test_out_of_memory(probe: Measure) -> None:
    """A result of a GiB on a GPU of one: said in one line, with what it was at."""
    with refused() as errors:
        probe("wide", card_bytes=GIB)
    assert "out of memory" in errors[0].message
    assert "a simulated GPU of 1GiB failed at 'two steps at batch 2'" in errors[0].message
    assert "gpuconf estimate models:wide" in (errors[0].hint or "")


@pytest.mark.parametrize(
    ("name", "words"), [("broken", "ArithmeticError: of the model"), ("killed", "killed")]
)
def test_a_model_that_fails(probe: Measure, name: str, words: str) -> None:
    """Its own error, or that it was killed: in one error."""
    with refused() as errors:
        probe(name, order={"input_shape": (3,)})
    assert words in errors[0].message


def test_a_model_that_never_ends(probe: Measure, environ: dict[str, str]) -> None:
    """The child is ended when its time is up."""
    # Fresh, since `environments` does not see the variables of a fork.
    with refused() as errors:
        probe("endless", environ={**environ, warm.VARIABLE: ""}, timeout_s=8)
    assert "took more than 8 s" in errors[0].message


def test_without_a_compiler(probe: Measure, environ: dict[str, str], tmp_path: Path) -> None:
    """A simulated GPU is built with one: the hint is how to install it."""
    bare = {**environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with refused(MissingDependencyError) as errors:
        probe("dense", environ=bare)
    assert "compiler" in errors[0].message


def command(*words: str) -> list[str]:
    """The command line with a probe."""
    return [sys.executable, "-m", "gpuconf", "estimate", *words, "--probe", "--no-jit"]


@pytest.mark.usefixtures("probe")
def test_on_the_command_line(environ: dict[str, str], tmp_path: Path) -> None:
    """One document on stdout; the tier, and a note of how far off the trace was: little."""
    words = ("models:dense", "--batch-size", "4", "--json")
    done = run(command(*words), tmp_path, environ=environ, timeout_s=200)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tier"] == SIMULATED_CARD
    (ratios,) = (
        found for note in told["notes"] if (found := re.findall("([0-9.]+) × traced", note))
    )
    assert [float(ratio) for ratio in ratios] == pytest.approx([1, 1], abs=0.1)
    # Weights, gradients and Adam's two states of 4 MiB each, and little that grows.
    assert 16 * MIB <= told["peak_bytes"] < 30 * MIB


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.usefixtures("probe")
def test_a_command_that_is_ended(
    start: Start, environ: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """In the middle of a probe: SIGTERM in order, and after SIGKILL no process is left either."""
    child = start(command("models:dense"), environ)

    def is_probing() -> bool:
        return any(f"HOME={tmp_path}" in found for _, found in environments())

    wait_until(is_probing, timeout_s=100)
    child.send_signal(number)
    code = child.wait(timeout=60)
    cards = list(Path("/dev/shm").glob(f"gpuconf-simcard-{child.pid}-*"))
    if number is signal.SIGTERM:
        assert code == 128 + number
        assert not cards
    wait_until(lambda: not is_probing(), timeout_s=20)
    for folder in cards:  # which the next simulated GPU sweeps: of another program, even now
        shutil.rmtree(folder, ignore_errors=True)
