"""gpuconf's own calls come first where they run, the plain way second; and the pastes run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuconf.commands.explain import Proposal
from gpuconf.support.failures.facts.tensor import MemoryRequest, tensor_of
from gpuconf.support.failures.facts.user_code import Frame
from gpuconf.support.failures.proposals import proposals_for
from gpuconf.support.failures.reading import LogFacts
from tests.commands.explain.pasted_code import values_of

TENSOR, WHOLE, HOST = "oom-device-tensor", "whole-array-copied", "host-oom"


def refused(*shape: int, code: str | None = None, batch: int | None = None) -> LogFacts:
    """Facts about a float32 tensor of ``shape``, and the user's line."""
    tensor = tensor_of(shape, "float") if shape else None
    frame = Frame(1, "train.py", 3, None, code) if code else None
    node = "conv/Conv2D" if shape else None
    signs = ("keras",)  # what a log of model.fit() or of Keras's layers shows
    request = MemoryRequest(tensor, node=node)
    return LogFacts(request, batch_size=batch, user_code=frame, signs=signs)


def pastes(cause: str, facts: LogFacts) -> list[str]:
    """What is to be pasted, without the imports of gpuconf."""
    made = proposals_for(cause, "failure", facts)
    return [each.paste.removeprefix("import gpuconf\n") for each in made]


STEP = (64, 28, 28, 32)
CASES = yaml.safe_load(Path(__file__).with_name("gpuconf_first.yaml").read_text(encoding="utf-8"))


def facts_of(name: str) -> LogFacts:
    """What a case's log shows."""
    case = CASES[name]
    facts = refused(*case.get("shape", ()), code=case.get("code"), batch=case.get("batch"))
    if case["cause"] == HOST:  # NumPy names no operation
        facts = facts._replace(request=facts.request._replace(node=None))
    return facts


@pytest.mark.parametrize("name", CASES)
def test_gpuconf_first_and_by_hand_second(name: str) -> None:
    """Both are proposed: what gpuconf does better, and what works without it."""
    made = pastes(CASES[name]["cause"], facts_of(name))
    assert made[0] == CASES[name]["first"]
    assert made[1].startswith(CASES[name]["second"])


ELSEWHERE: dict[str, dict[str, Any]] = {
    "an old TensorFlow": {"versions": {"tensorflow": "2.14.1"}},
    "TensorFlow 1": {"versions": {"tensorflow": "1.15.5"}},
    "an old Python": {"versions": {"python": "3.6"}},
    "Windows": {"on_windows": True},
    "PyTorch": {"framework": "torch"},
    "gpuconf itself": {"user_code": Frame(1, "t.py", 3, None, "gpuconf.fit(model, a, b)")},
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_not_where_gpuconf_does_not_run(where: str) -> None:
    """What cannot be installed there, or was what failed, is not proposed."""
    for name, case in CASES.items():
        made = pastes(case["cause"], facts_of(name)._replace(**ELSEWHERE[where]))
        assert made, name
        ours = [paste for paste in made if "gpuconf." in paste and not paste.startswith("#")]
        assert ours == [], name


def test_versions_that_are_new_enough() -> None:
    """2.15 and Python 3.10 are."""
    facts = refused(*STEP)._replace(versions={"tensorflow": "2.15.0", "python": "3.10"})
    assert pastes(TENSOR, facts)[0].startswith("gpuconf.fit")


def test_a_training_operation_is_not_run_once_per_part() -> None:
    """session_evaluate is for evaluating: a step of the user's own is left to a smaller batch."""
    for code in ("session.run(train_step, feed_dict={a: b})", "sess.run([optimizer, loss], feed)"):
        assert pastes(TENSOR, refused(*STEP, code=code))[0] == "batch_size = 32"


def test_gradients_are_accumulated_over_as_many_parts_as_fit() -> None:
    """64 in parts of 32 are two; last, since gpuconf.fit does it without being told."""
    assert pastes(TENSOR, facts_of("fit"))[-1].endswith("(gradient_accumulation_steps=2)")


def test_outputs_of_predict_stand_in_the_order_of_the_files() -> None:
    """No way of handing over data shuffles them."""
    made = pastes(WHOLE, refused(code="model.predict(a)"))
    assert "np.arange" in made[1]
    assert "y[rows]" not in made[1]  # there may be none
    assert "shuffle=False" in made[2]


@pytest.mark.parametrize("code", ["X = np.array(images) / 255.0", "x /= 255"])
def test_pictures_that_were_scaled_are_scaled(code: str) -> None:
    """The same network would learn from other numbers; and none are scaled to whole ones."""
    made = pastes(HOST, refused(9999, 64, 48, 3, code=code))
    assert 'batch_size=32, scale="0-1", host_limit' in made[0]
    assert "np.array(images, dtype='uint8')" in made[2]


def test_pytorchs_data_come_by_pytorchs_loader() -> None:
    """Who uses PyTorch is not told to load images with Keras."""
    made = pastes(HOST, LogFacts(framework="torch"))
    assert "DataLoader" in made[0]
    assert not any("keras" in paste for paste in made)


def code_of(cause: str, facts: LogFacts) -> list[Proposal]:
    """The changes that are Python and change no settings."""
    made = proposals_for(cause, "failure", facts)
    return [each for each in made if each.kind in ("code", "batch") and "half p" not in each.title]


# What the last lines give, of 40 samples and 6 files.
GIVES = {
    "import gpuconf\ngpuconf.fit(model, x, y, batch_size=64)": "History of 1 steps",
    "model.fit(x, y, batch_size=32)": "History of 2 steps",
    "import gpuconf\ngpuconf.evaluate(model, x, y)": "list [2]",
    "import gpuconf\ngpuconf.predict(model, x)": "ndarray [40, 2]",
    "import gpuconf\nresults = gpuconf.oom_safe(compute)(x)": "ndarray [40]",
    f"import gpuconf\n{CASES['a session']['first']}": "ndarray [40]",
    CASES["images"]["second"]: "Dataset [[6, 64, 48, 3], [6]]",
}


@pytest.mark.slow
def test_the_pastes_run(tmp_path: Path) -> None:
    """In a real TensorFlow, next to a script with those names, each gives what it should."""
    made = [each for name in CASES for each in code_of(CASES[name]["cause"], facts_of(name))]
    made += code_of(WHOLE, refused(code="model.fit(a, b)"))
    made += code_of(WHOLE, refused(code="model.predict(a)"))
    found = values_of([each.paste for each in made], tmp_path)
    assert GIVES.items() <= found.items()
    streams = [value for paste, value in found.items() if "stream" in paste]
    assert set(streams) == {"History of 1 steps", "list [2]", "ndarray [6, 2]"}
