"""The source lint: each check speaks where it must, names the line, and is silent elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.source import SOURCE_CHECKS, findings_in, in_one

_PLACE = re.compile(r"train\.py:(\d+)")
_FOUND = re.compile(r"  # found( twice)?$", re.MULTILINE)


class Case(NamedTuple):
    """A script, the check it is for, and the lines that the check names; none for silence."""

    name: str
    id: str
    script: str
    lines: list[int]


def cases() -> Iterator[Case]:
    """The scripts of cases/*.yaml, by check and name; a line to be named ends in ``# found``."""
    for file in sorted(Path(__file__).parent.glob("cases/*.yaml")):
        for check, scripts in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            for name, text in scripts.items():
                marks = [_FOUND.search(line) for line in text.splitlines()]
                lines = [
                    number
                    for number, mark in enumerate(marks, start=1)
                    if mark
                    for _ in range(2 if mark[1] else 1)
                ]
                yield Case(f"{check}: {name}", f"source.{check}", _FOUND.sub("", text), lines)


CASES = tuple(cases())


def found(script: str, check_id: str) -> list[Finding]:
    """The findings of one check in ``script``."""
    return [each for each in findings_in(script, "train.py") if each.id == check_id]


def lines_of(finding: Finding) -> list[int]:
    """The lines that a finding speaks of: its own, and those that are as bad."""
    also = [text for text in finding.detail if text.startswith("also at")]
    return [int(number) for text in (finding.summary, *also) for number in _PLACE.findall(text)]


def test_each_check() -> None:
    """It names the lines that the table marks; where the table marks none, it says nothing."""
    wrong = {}
    for case in CASES:
        findings = found(case.script, case.id)
        lines = sorted(line for each in findings for line in lines_of(each))
        if case.id == "source.clean":
            is_right = bool(findings) == case.name.endswith("nothing")
        else:
            is_right = lines == case.lines
        if not is_right:
            wrong[case.name] = lines
    assert wrong == {}
    assert len(CASES) > 110


def test_the_table_has_both_for_each_check() -> None:
    """Every id has a script that makes it speak, and one on which it is silent."""
    for check_id in SOURCE_CHECKS:
        mine = [bool(found(case.script, check_id)) for case in CASES if case.id == check_id]
        assert set(mine) == {True, False}, check_id


def test_problems_have_a_place_a_quote_and_a_fix_that_is_python() -> None:
    """What a person gets can be found and pasted."""
    with_a_fix = 0
    for case in CASES:
        lines = case.script.splitlines()
        for finding in findings_in(case.script, "train.py"):
            assert finding.id in SOURCE_CHECKS
            assert finding.status != "crash", finding
            if finding.status not in ("warn", "fail"):
                continue
            assert finding.summary.startswith("train.py:")
            number = int(_PLACE.findall(finding.summary)[0])
            assert finding.detail[0].strip() == lines[number - 1].strip()
            assert finding.fix
            ast.parse(finding.fix)
            with_a_fix += 1
    assert with_a_fix >= 70


def test_the_fix_removes_the_finding() -> None:
    """The rewrite alone, with what it names, does not bring the same finding."""
    fixes = [
        (case.id, f"import os\n{finding.fix}")
        for case in CASES
        for finding in found(case.script, case.id)
        if finding.fix and finding.status in ("warn", "fail")
    ]
    assert len(fixes) >= 65
    assert [fix for check_id, fix in fixes if found(fix, check_id)] == []


def test_no_sound_script_brings_a_warning_of_another_check() -> None:
    """Our own front page, and Keras's usual example, are clean."""
    script = """
import gpuconf.auto
import keras
import tensorflow as tf
(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
model = keras.Sequential([keras.layers.Dense(10, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=128, epochs=2, validation_data=(x_test, y_test))
print(model.evaluate(x_test, y_test), model(x_test[:5]))
"""
    assert [each.id for each in findings_in(script, "train.py")] == ["source.clean"]


def test_a_script_without_findings_is_not_called_sound() -> None:
    """It says how many patterns were looked for; that no profile applies is not a fault."""
    missing, clean = findings_in("import keras\n", "train.py")
    assert clean.summary == "train.py: read; none of the 9 patterns looked for was found"
    assert (missing.id, missing.status, missing.fix) == ("source.auto_missing", "ok", None)


@pytest.mark.parametrize(("clean", "counted"), [(0, "2 with findings"), (2, "none with findings")])
def test_several_files_are_counted_by_their_findings(clean: int, counted: str) -> None:
    """Not by the files without any, which reads as its opposite if there are none."""
    without = Finding("source.clean", "ok", "a.py: read")
    assert in_one([without] * clean, 2)[-1].summary == f"2 files read for 9 patterns, {counted}"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("tf.Session()", "written for TensorFlow 1: TensorFlow 2 and Keras 3 have no tf.Session"),
        (
            "tf.Session(tf.ConfigProto(tf.GPUOptions()))",
            "written for TensorFlow 1: TensorFlow 2 and Keras 3 have no tf.Session, "
            "tf.ConfigProto or tf.GPUOptions",
        ),
        (
            "x_test = tf.load()\nmodel = tf.keras.Sequential([f])\nmodel(x_test)",
            "`model(x_test)` sends a whole data set to the GPU as one batch",
        ),
    ],
)
def test_the_words_of_a_finding(script: str, words: str) -> None:
    """What is not there is said as one says it, and a call as it is written."""
    findings = findings_in(f"import tensorflow as tf\n{script}\n", "train.py")
    assert words in [each.summary.partition(": ")[2] for each in findings]


def test_equal_findings_are_told_once() -> None:
    """A hundred lines with one fault are one finding, and not all its places are listed."""
    script = "import os\n" + 'os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"\n' * 100
    (finding,) = found(script, "source.refused_value")
    assert len(lines_of(finding)) == 8
    assert finding.detail[-1].endswith("and 92 more")


@pytest.mark.parametrize(
    ("comment", "is_silent"),
    [
        ("# gpuconf: ignore", True),
        ("# gpuconf:ignore[source.refused_value, source.env_late]", True),
        ("# gpuconf: ignore[source.refused-value]", True),
        ("# gpuconf: ignore[source.env_late]", False),
        ("# noqa", False),
    ],
)
def test_a_comment_silences_a_line(comment: str, is_silent: bool) -> None:
    """``# gpuconf: ignore`` all checks, with ids in brackets only those; it is counted."""
    script = f'import os\nos.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"  {comment}\n'
    findings = findings_in(script, "train.py")
    assert (not found(script, "source.refused_value")) == is_silent
    if is_silent:
        assert findings[-1].detail == ("1 silenced by `# gpuconf: ignore`",)


def test_a_quoted_line_obeys_nobody() -> None:
    """Escape sequences in the source do not reach the terminal."""
    script = 'import os\nos.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"  # \x1b[2J\x07\n'
    (finding,) = found(script, "source.refused_value")
    assert "".join(finding.detail).isprintable()


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    """Whatever a file holds, the answer is findings."""
    for name in ("a.py", "a.ipynb"):
        found = findings_in(text, name)
        assert found
        assert {each.status for each in found} <= {"ok", "warn", "fail", "skip"}


_NAMES = st.sampled_from(["tf", "gpus", "x_test", "os", "model", "K", "images", "cv2", "np"])
_LEAVES = _NAMES | st.sampled_from(["1", "'true'", "None", "gpus[0]", "x_test.shape[0]", "len(x)"])
_CALLS = st.sampled_from(
    ["tf.Session", "tf.config.experimental.set_memory_growth", "tf.config.list_physical_devices"]
) | st.sampled_from(["K.set_session", "np.array", "cv2.imread", "images.append", "f"])
_CALLS |= st.sampled_from(["model.predict_on_batch", "os.environ.update"])
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.builds("{}({}, {})".format, _CALLS, inner, inner)
        | st.builds("[{} for {} in {}]".format, inner, _NAMES, inner)
        | st.builds("({} if {} else (lambda: {}))".format, inner, inner, inner)
    ),
    max_leaves=5,
)
_LINES = st.builds("{} = {}".format, _NAMES, _EXPRESSIONS) | _EXPRESSIONS
_LINES |= st.builds("os.environ[{}] = {}".format, _EXPRESSIONS, _EXPRESSIONS)
_LINES |= st.sampled_from(["import tensorflow as tf, os", "from keras import backend as K"])
_LINES |= st.just("import gpuconf.auto")


def _block(head: str) -> st.SearchStrategy[str]:
    return st.lists(_LINES, min_size=1, max_size=3).map(
        lambda lines: head + "".join(f"\n    {line}" for line in lines)
    )


_BLOCKS = st.sampled_from(["def f(x=1):", "for i in gpus:", "while f():", "class A(f()):"]).flatmap(
    _block
)
_TRIES = _block("try:").map(lambda text: f"{text}\nexcept (RuntimeError, f()):\n    pass")


@given(st.lists(_LINES | _BLOCKS | _TRIES, max_size=6).map("\n".join))
def test_no_python_makes_a_check_break_down(script: str) -> None:
    """On valid Python no check crashes, and what it says carries a fix."""
    ast.parse(script)
    for finding in findings_in(script, "train.py"):
        assert finding.status != "crash", finding
        assert finding.fix or finding.status in ("ok", "skip")


def test_deep_nesting_is_an_answer() -> None:
    """What Python's own parser cannot take is one finding, and no traceback."""
    for script in ("(" * 3000 + ")" * 3000, "x = " + "-" * 50_000 + "1", "a" + ".b" * 50_000):
        assert findings_in(script, "train.py")
