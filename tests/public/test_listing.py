"""The list of public scripts is whole, and its changes are made. Nothing is fetched or run here."""

from __future__ import annotations

import ast
import re

import pytest

from tests.public import edits, runs
from tests.public.listing import HERE, Script, read, table
from tests.public.synthetic_files import KINDS

MIB = 1 << 20


def script(**changes: object) -> Script:
    """An entry of the list."""
    facts = {"name": "a", "repository": "b/c", "commit": "0" * 40, "path": "a.py", "shape": "fit"}
    return Script(**{**facts, **changes})  # type: ignore[arg-type]


def test_twenty_scripts_and_five_notebooks() -> None:
    """Each entry names a commit, a file and kinds of data that there are."""
    scripts = read()
    assert len({entry.name for entry in scripts}) == 25
    assert sum(entry.is_notebook for entry in scripts) == 5
    for entry in scripts:
        assert re.fullmatch("[0-9a-f]{40}", entry.commit), entry.name
        assert entry.path.endswith((".py", ".ipynb")), entry.name
        assert {facts["kind"] for facts in entry.files.values()} <= set(KINDS), entry.name


def test_the_readme_has_the_list() -> None:
    """README.md shows what scripts.yaml holds."""
    assert table() in (HERE / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "changes", "changed"),
    [
        ("epochs = 50\n", {"names": {"epochs": 1}}, "epochs = 1\n"),
        ("é = fit(x, epochs=50, n=50)\n", {"names": {"epochs": 1}}, "é = fit(x, epochs=1, n=50)\n"),
        ("fit(epochs=epochs)\n", {"names": {"epochs": 1}}, "fit(epochs=epochs)\n"),
        ("x[-10000:]; y = 1.0\n", {"numbers": {10000: 9, 1: 2}}, "x[-9:]; y = 1.0\n"),
        ("epochs = 50\n", {"names": {"epochs": 2}, "numbers": {50: 7}}, "epochs = 2\n"),
        ("f(lr=lr)\n", {"strings": {"lr=lr": "rate=lr"}}, "f(rate=lr)\n"),
        ("  %time x\n!ls\n", {"path": "a.ipynb"}, "  pass\npass\n"),
    ],
)
def test_changes_stay_on_their_lines(text: str, changes: dict[str, object], changed: str) -> None:
    """Names, numbers and strings are replaced where they stand, and nothing else."""
    if text.startswith("  "):
        text, changed = f"if 1:\n{text}", f"if 1:\n{changed}"
    assert edits.edit(text, script(**changes)) == changed


def test_tensorflow_1_gets_its_names_and_data() -> None:
    """The one line for compat.v1, and the loader that TensorFlow 2 no longer has."""
    text = f"import tensorflow as tf\n{edits.OLD_DATA}\n"
    edited = edits.add_header(edits.edit(text, script(tf1=True)))
    first, second = edited.splitlines()
    assert first.startswith("import tensorflow.compat.v1 as tf")
    assert "disable_v2_behavior()" in first
    assert second == "import input_data"


@pytest.mark.parametrize(
    "line",
    [
        "import keras",
        "import tensorflow as tf  #  only for data",
        "from tensorflow import data as d",
    ],
)
def test_the_stand_ins_come_with_the_framework(line: str) -> None:
    """Behind the first import of a framework, before a comment; the docstring before it stays."""
    edited = edits.add_header(f'"""import keras in words."""\nimport os\n{line}\nimport keras\n')
    assert edited.count("import stand_in_data") == 1
    assert [node.names[0].name for node in ast.parse(edited).body[3:4]] == ["stand_in_data"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("limit", [6 * MIB, 1700 * MIB, 4000 * MIB])
def test_the_card_for_a_limit(limit: int) -> None:
    """Context, TensorFlow's reserve and the limit add up."""
    free = runs.card_for(limit) - runs.CONTEXT_BYTES
    assert free - (225 if free < 2048 * MIB else 1536) * MIB == limit
