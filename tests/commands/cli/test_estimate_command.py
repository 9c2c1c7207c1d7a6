"""``gpuconf estimate`` as its users call it: what it refuses, prints and draws."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import GIB
from tests.commands.cli.commands import Done, gpuconf, run_commands
from tests.commands.cli.estimated_scripts import SCRIPTS
from tests.machine.cards import standin
from tests.programs import warm
from tests.programs.processes import Nvml, run
from tests.programs.terminals import OnTerminal

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
)

WARM = {warm.VARIABLE: warm.CHILDREN}
MODULE = """
import atexit, os
import tensorflow as tf
keras = tf.keras
print("imported")
os.write(1, b"imported, below Python\\n")
atexit.register(print, "at the end")

def make(compiled=True):
    print("made")
    layers = [keras.Input((16, 16, 3)), keras.layers.Conv2D(8, 3, name="conv"),
              keras.layers.Flatten(), keras.layers.Dense(10, name="dense")]
    model = keras.Sequential(layers)
    if compiled:
        model.compile("sgd", "mse")
    return model

def plain():
    return make(compiled=False)

def open_shape():
    layers = [keras.Input((None, None, 3)), keras.layers.Conv2D(8, 3),
              keras.layers.GlobalAveragePooling2D()]
    return keras.Sequential(layers)

def bad():
    raise KeyError("of the user")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module."""
    (tmp_path / "nets.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
@needs_tensorflow
def test_reports(folder: Path) -> None:
    """Without a limit, one that is held, and one that is not; exit codes 0, 0, 1."""
    free, held, small = run_commands(
        folder,
        ["estimate", "nets:make"],
        *(
            ["estimate", *words.split(), "--no-jit"]
            for words in (
                "nets:make --limit 1GiB --plot a.svg --batch-size 8",
                "nets:plain --limit 2MiB --optimizer adam --loss mse -v",
            )
        ),
        environ=WARM,
    )
    assert (free.code, held.code, small.code) == (0, 0, 1), free.err + held.err + small.err
    assert free.out.startswith("batch 32: ")
    assert "training with SGD and mse, float32, compiled by XLA" in free.out
    assert "compiled by TensorFlow's XLA for an assumed GPU" in free.out
    assert "fullest at" in free.out
    assert "without XLA" in held.out
    for part in ("the peak", "the layers at the peak", "the GPU", "conv"):
        assert part in free.out
    more = "add --limit, --card, or --profile to find the largest batch"
    assert [more in each.out for each in (free, held, small)] == [True, False, False]
    assert "made" not in free.out, "which is the user's, and goes to stderr"
    assert held.out.startswith("batch 8: ")
    assert "; the largest batch that fits in 1024 MiB is " in held.out
    assert "wrote a.svg" in held.err
    assert "<svg" in (folder / "a.svg").read_text(encoding="utf-8")
    assert "does not fit in 2 MiB" in small.out
    assert "training with Adam and mse" in small.out


@pytest.mark.slow
@needs_tensorflow
def test_a_card_of_this_machines_compute_capability(folder: Path, nvml: Nvml) -> None:
    """On a GTX 1080, TensorFlow's reserve and XLA's target are that GPU's, and so is the memory."""
    gtx = standin.Card(standin.uuid(0), total=8 * GIB, reserved=0, major=6, minor=1)
    smaller, own = run_commands(
        folder,
        ["estimate", "nets:make", "--card", "4GiB"],
        ["estimate", "nets:make"],
        environ=nvml(standin.Machine((gtx,))),  # which a new process finds
    )
    assert "4096 MiB free - 450 MiB context - 500 MiB reserve" in smaller.out, smaller.err
    assert "XLA for an assumed GPU, compute capability 6.1 with 4096 MiB" in smaller.out
    assert "XLA for this machine's GPU, compute capability 6.1 with 8192 MiB" in own.out, own.err


@pytest.mark.slow
@needs_tensorflow
def test_documents(folder: Path) -> None:
    """Valid by the schema, for training and inference, and for the user's own error."""
    done = run_commands(
        folder,
        ["estimate", "nets:make", "--json", "--no-jit", "--limit", "1GiB"],
        ["estimate", "nets:make", "--json", "--no-jit", "--inference", "--batch-size", "8"],
        ["estimate", "nets:open_shape", "--json", "--no-jit", "--input-shape", "32,32,3"],
        ["estimate", "nets:open_shape", "--json"],
        ["estimate", "nets:bad", "--json"],
        ["estimate", "nets:nosuch", "--json"],
        environ=WARM,
    )
    assert [each.code for each in done] == [0, 0, 0, 2, 1, 2], [each.err for each in done]
    training, inference, shaped, *errors = (each.document for each in done)
    assert (training["target"], training["batch_size"], training["tier"]) == (
        *("nets:make", 32),
        "simulated-card",
    )
    assert training["fits"] is True
    assert training["largest_batch"] > 32
    assert training["peak_bytes"] > training["resident_bytes"] > 0
    assert {layer["layer"] for layer in training["layers"]} >= {"conv", "dense", None}
    assert inference["setting"]["training"] is inference["setting"]["jit"] is False
    assert inference["largest_batch"] is None
    assert inference["peak_bytes"] < training["peak_bytes"]
    assert shaped["batch_size"] == 32
    assert "(None, None, None, 3)" in errors[0]["error"]["message"]
    assert 'raise KeyError("of the user")' in errors[1]["error"]["message"]
    assert errors[1]["error"]["hint"]
    assert "nets has no 'nosuch'" in errors[2]["error"]["message"]


@pytest.mark.slow
@needs_tensorflow
def test_what_the_users_code_prints(folder: Path) -> None:
    """Goes to stderr, in Python, below it, and at the end: stdout is one document."""
    done = run(gpuconf("estimate", "nets:make", "--json", "--no-jit"), folder, timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert Done(done.returncode, done.stdout, done.stderr, "estimate").document
    for said in ("imported\n", "imported, below Python\n", "made\n", "at the end\n"):
        assert done.stderr.count(said) == 1, said
    others = [line for line in done.stderr.splitlines() if "import" not in line]
    assert others == ["made", "at the end"], "not a word of TensorFlow's"


@pytest.mark.slow
@needs_tensorflow
def test_a_terminal(folder: Path) -> None:
    """Every line of more than a word fits it, and it says what it does while people wait."""
    command = gpuconf("estimate", "nets:make", "--limit", "1GiB", "--no-jit")
    with OnTerminal(command, folder, columns=60) as terminal:
        assert terminal.end() == 0, terminal.raw
    assert [line for line in terminal.lines if len(line) > 60 and len(line.split()) > 1] == []
    assert "… building nets:make" in terminal.lines
    assert "… tracing a training step at batch 32" in terminal.lines


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Done]:
    """What became of ``estimate`` with these words, each of which is run once."""
    folder = tmp_path_factory.mktemp("scripts")
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text, encoding="utf-8")

    @functools.cache
    def estimated(words: str) -> Done:
        # Compiling takes seconds each: in one of them alone.
        options = [] if words == COMPILED else ["--no-jit"]
        # What watches the losses of tf.keras waits for their import.
        environ = {} if "tf_keras" in words else WARM
        command = gpuconf("estimate", *options, *words.split())
        done = run(command, folder, environ=environ, timeout_s=120)
        assert not list(folder.glob("saved*")), "nothing after the training's beginning was done"
        return Done(done.returncode, done.stdout, done.stderr, "estimate")

    return estimated


COMPILED = "main.py --json"
ALL_FIT = "main.py --limit 2GiB"
SMALL = "main.py --limit 2MiB --optimizer adam --batch-size 8 -- --batch 48"
# The script, its batch, its optimizer, and where the figures are from.
FROM_SCRIPTS = (
    (COMPILED, 16, "SGD", "fit() at main.py:19: batch 16 of float32[16, 28, 28, 1], uint8"),
    ("batched.py --json", 20, "Adam", "fit() at batched.py:12: batch 20 of float32[20, 28, 28, 1]"),
    ("pipeline.py --json", 48, "Adam", "fit() at pipeline.py:15: batch 48 of float32[48, 28, 28, "),
    ("loop.py --json --limit 64MiB", 50, "Adam", "train_step(), a tf.function, at loop.py:23: "),
    ("eager.py --json", 50, "Adam", "the loop at eager.py:18: batch 50 of float32[50, 28, 28, 1]"),
    ("gan.py --json", 16, None, "fit() at gan.py:34: batch 16 of float32[16, 28, 28, 1]"),
    ("model_alone.py --json", 32, "Adam", "model_alone.py ended without training: its only model"),
)
MORE_FROM_SCRIPTS = (
    ("main.py --json -- --batch 48", 48, "SGD", "fit() at main.py:19: batch 48 of float32[48, 28"),
    ("batches.py --json", 24, "Adam", "train_on_batch() at batches.py:13: batch 24 of float32[24,"),
    ("loop.py --json --batch-size 20", 20, "Adam", "train_step(), a tf.function, at loop.py:23"),
    ("function_loss.py --json", 50, "Adam", "the loop at function_loss.py:19: batch 50 of float32"),
    ("tf_keras_loss.py --json", 50, "Adam", "the loop at tf_keras_loss.py:19: batch 50 of float32"),
)


def _documents(
    rows: tuple[tuple[str, int, str | None, str], ...], scripts: Callable[[str], Done]
) -> dict[str, Any]:
    """The estimates' documents, whose batch, optimizer and first note are the row's."""
    found = {}
    for words, batch, optimizer, said in rows:
        done = scripts(words)
        assert done.code == 0, done.err
        document = found[words] = done.document
        assert document["batch_size"] == batch
        assert optimizer in (None, document["setting"]["optimizer"])
        assert said in document["notes"][0], document["notes"]
    return found


@pytest.mark.slow
@needs_tensorflow
def test_scripts_as_they_are(scripts: Callable[[str], Done]) -> None:
    """Model, optimizer, loss and batch are those of the script's first training, however it trains.

    Nothing is trained, and nothing that would come after it is done.
    """
    found = _documents(FROM_SCRIPTS, scripts)
    # The same model with the same optimizer and batch, by a loop of the script's own.
    loop, eager = found["loop.py --json --limit 64MiB"], found["eager.py --json"]
    assert abs(loop["peak_bytes"] - eager["peak_bytes"]) < eager["peak_bytes"] * 0.01
    assert loop["largest_batch"] > 50
    assert {"sequential/conv", "sequential/dense"} <= {row["layer"] for row in loop["layers"]}
    assert "the script's own words" in scripts(COMPILED).err
    assert found[COMPILED]["setting"]["jit"], "what Keras decides"
    assert not found["batched.py --json"]["setting"]["jit"], "gpuconf.fit runs steps without XLA"
    whole = "fit() copies whole arrays to the GPU: 6 MiB"  # 2000 x 28 x 28 x 4 B
    assert whole in found[COMPILED]["notes"][1]
    kinds = found[COMPILED]["peak"]["bytes_by_kind"]
    assert kinds["arrays of fit()"] == 2000 * (28 * 28 * 4 + 1), "float32, uint8"
    assert "arrays of fit()" not in found["batched.py --json"]["peak"]["bytes_by_kind"]
    assert not any("fit() copies" in note for note in found["pipeline.py --json"]["notes"])
    assert not any("in one batch" in note for note in found[COMPILED]["notes"]), "no limit"
    small = scripts(SMALL)
    assert "in one batch" not in small.out
    assert "nor would a single sample" in small.out, "the arrays are larger than the limit"
    assert "fit() gets 2000 samples: all of them fit in one batch" in scripts(ALL_FIT).out


@pytest.mark.nightly
@pytest.mark.slow
@needs_tensorflow
def test_more_scripts_as_they_are(scripts: Callable[[str], Done]) -> None:
    """The same with other ways to set a batch, to train by batches, and to compute the loss."""
    found = _documents(MORE_FROM_SCRIPTS, scripts)
    for words in ("function_loss.py --json", "tf_keras_loss.py --json"):
        assert "int32[50]" in found[words]["notes"][0]  # the loss's own targets
        assert not any("is assumed" in note for note in found[words]["notes"])


@pytest.mark.slow
@needs_tensorflow
def test_scripts_that_are_not_as_wanted(scripts: Callable[[str], Done]) -> None:
    """Options go over what the script says; what fails is the script's, or a hint continues."""
    small = scripts(SMALL)
    assert small.code == 1
    assert "does not fit in 2 MiB" in small.out
    assert "training with Adam and sparse_categorical_crossentropy" in small.out
    for words, code, said, hint in (
        ("main.py -- --btach 48", 1, "unrecognized arguments: --btach", "main.py -- --epochs 1"),
        ("loop.py --optimizer sgd", 2, "--optimizer requires a model", "change it in the script"),
        ("session.py", 2, "session.run() at session.py:9", "gpuconf rehearse"),
        (
            "two_models.py",
            2,
            "created 2 models: sequential_2 (Sequential), ",
            "two_models.py:FUNCTION",
        ),
        ("nothing.py", 2, "created no Keras model", "gpuconf estimate nothing.py:FUNCTION"),
        ("broken.py", 1, "No such file or directory: 'nosuch.csv'", "python broken.py"),
    ):
        done = scripts(words)
        assert (done.code, done.out) == (code, ""), words
        assert said in done.err, words
        assert hint in done.err.splitlines()[-1], words
        assert "Traceback" not in done.err
