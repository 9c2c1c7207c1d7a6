"""A script that cannot or should not be edited gets the command that needs no edit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuconf import load_profile
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.source import check_script, findings_in
from gpuconf.commands.doctor.source.run_unmodified import reason

OF_2018 = """
import tensorflow as tf
from keras.backend.tensorflow_backend import set_session
set_session(tf.Session(config=tf.ConfigProto()))
"""
# Each says why; "" where nothing is proposed.
SCRIPTS = {
    OF_2018: "it is written for TensorFlow 1",
    "import tensorflow as tf\nwith tf.Session() as s:\n    pass\n": "for TensorFlow 1",
    "import keras\nprint 'x'\n": "it is written for Python 2",
    "import keras\ntry:\n    pass\nexcept IOError, e:\n    pass\n": "for Python 2",
    "import keras\nexec 'x'\n": "for Python 2",
    "import keras\nmodel.fit(x,\n": "",
    "import keras\n": "",
    "import gpuconf.auto, keras\n": "",
    "import tensorflow.compat.v1 as tf\ntf.Session()\n": "",
    "import tensorflow as tf\ntf.Session()  # gpuconf: ignore\n": "",
    "import tensorflow as tf\nif tf.__version__ < '2':\n    tf.Session()\n": "",
}


def left_alone(findings: tuple[Finding, ...]) -> list[Finding]:
    """Those that propose to leave the script as it is."""
    return [each for each in findings if each.id == "source.unedited"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_of_old_stacks(script: str) -> None:
    """One finding, that is not a fault, with the command."""
    found = left_alone(findings_in(script, "my train.py"))
    if not SCRIPTS[script]:
        assert found == []
        return
    (each,) = found
    assert SCRIPTS[script] in each.summary
    assert (each.status, each.fix) == ("ok", "gpuconf run -- python 'my train.py'")


@pytest.mark.parametrize(
    ("installed", "owner", "user", "is_writable", "why"),
    [
        ("site-packages", 1000, 1000, True, "it is installed (in site-packages)"),
        (None, 0, 1000, False, "you have no permission to write to it"),
        (None, 1001, 1000, True, "it belongs to another user (uid 1001)"),
        (None, 1000, 1000, True, None),
        (None, 1000, 0, True, None),  # root's are all
        (
            None,
            1000,
            0,
            False,
            "you have no permission to write to it",
        ),  # on a mount that is read-only
    ],
)
def test_whose_it_is(
    installed: str | None, owner: int, user: int, is_writable: bool, why: str | None
) -> None:
    """Installed, read-only, somebody else's; else it is the user's to edit."""
    assert reason(installed, owner=owner, user=user, is_writable=is_writable) == why


def test_an_installed_script(tmp_path: Path) -> None:
    """By the folder that it really is in; without a framework, or with gpuconf, nothing is said."""
    folder = tmp_path / "lib" / "site-packages" / "theirs"
    folder.mkdir(parents=True)
    script = folder / "train.py"
    link = tmp_path / "train"
    link.symlink_to(script)
    for text, is_proposed in (("import keras", True), ("import os", False),
                          ("import gpuconf.auto, keras", False)):  # fmt: skip
        script.write_text(text)
        assert bool(left_alone(check_script(str(link)))) == is_proposed
    own = tmp_path / "own.py"
    own.write_text("import keras")
    assert left_alone(check_script(str(own))) == []


def test_no_profile_applies_and_two_ways_to_have_one() -> None:
    """A line in the script, or none."""
    missing, _ = findings_in("import keras\n", "train.py")
    assert "import gpuconf.auto" in missing.detail[1]
    assert missing.detail[2] == "or without editing it: gpuconf run -- python train.py"


def test_the_kernel_of_a_notebook() -> None:
    """The line of its kernel.json is JSON, and names a profile that there is."""
    cells = [{"cell_type": "code", "source": "import keras"}]
    missing, _ = findings_in(json.dumps({"cells": cells, "nbformat": 4}), "nb.ipynb")
    line = missing.detail[2]
    assert "`jupyter kernelspec list`" in line
    spec = json.loads("{" + line[line.index('"argv"') :].rstrip(",") + "}")
    words = spec["argv"]
    end = words.index("--")
    assert words[:2] == ["gpuconf", "run"]
    assert load_profile(words[words.index("--profile") + 1]).name == "notebook"
    assert words[end + 1 :] == ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]


def test_the_fix_of_an_old_session_names_the_way_without_editing() -> None:
    """`gpuconf doctor` without -v shows the failure alone, so its fix says both."""
    found = findings_in("import tensorflow as tf\ntf.Session()\n", "old.py")
    problem = next(each for each in found if each.id == "source.v1")
    assert problem.fix is not None
    assert problem.fix.splitlines()[-1].endswith(": gpuconf run -- python old.py")
    syntax, _ = findings_in("print 'x'\nimport keras\n", "old.py")
    assert syntax.id == "source.syntax"
    assert syntax.fix is not None
    assert syntax.fix.splitlines()[-1].endswith(": gpuconf run -- python old.py")
