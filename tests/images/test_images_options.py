"""What is refused before any file is looked at, and how a batch is scaled."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from gpuconf.errors import UsageError
from gpuconf.images import Failures, stream
from gpuconf.images.transforms import make_augment, make_scale
from tests.programs.processes import run_python

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"size": 0}, "size=0"),
    ({"size": (224,)}, "height, width"),
    ({"size": (224, 224, 3)}, "height, width"),
    ({"size": (22.4, 10)}, "height, width"),
    ({"size": "224x224"}, "height, width"),
    ({"channels": 2}, "channels=2"),
    ({"channels": True}, "channels=True"),
    ({"batch_size": 0}, "batch_size=0"),
    ({"batch_size": None}, "batch_size=None"),
    ({"batch_size": True}, "batch_size=True"),
    ({"scale": "0-255"}, "'0-255'"),
    ({"scale": 0}, "scale=0"),
    ({"scale": float("nan")}, "scale=nan"),
    ({"scale": True}, "scale=True"),
    ({"augment": 3}, "augment=3"),
    ({"augment": []}, "augment="),
    ({"augment": "flip"}, "augment='flip'"),
    ({"shuffle": 1000}, "shuffle=1000"),
    ({"drop_remainder": "no"}, "drop_remainder='no'"),
    ({"follow_links": 1}, "follow_links=1"),
    ({"seed": -1}, "seed=-1"),
    ({"seed": "x"}, "seed='x'"),
    ({"host_limit": "2"}, "host_limit='2'"),
    ({"host_limit": 1.5}, "host_limit=1.5"),
    ({"host_limit": "10kB"}, "less than 1MiB"),
    ({"on_error": "ignore"}, "on_error='ignore'"),
    ({"label_mode": "categorical"}, "label_mode='categorical' is not one of 'int', None"),
    ({"interpolation": "cubic"}, "interpolation='cubic'"),
    ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, "cannot both be used"),
    ({"validation_split": 0.2}, "pass both or neither"),
    ({"subset": "training"}, "pass both or neither"),
    ({"validation_split": 2.0, "subset": "both"}, "not a fraction"),
    ({"validation_split": 0.2, "subset": "test"}, "subset='test'"),
    ({"validation_split": 0.2, "subset": "training"}, "overlap"),
]


def test_refused() -> None:
    """The value seen, the rule, and what to write instead."""
    for options, words in REFUSED:
        with pytest.raises(UsageError) as caught:
            stream(["a.png"], **{"size": (8, 8), **options})
        assert words in str(caught.value), options
        assert caught.value.hint, options


def test_arguments_are_shown_and_missed_by_name() -> None:
    """``help`` shows all of them with their defaults, and a wrong one is the function's error."""
    function: Any = stream
    shown = inspect.signature(function).parameters
    assert list(shown)[:3] == ["paths", "labels", "size"]
    assert shown["batch_size"].default == 32
    assert shown["size"].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(TypeError, match=r"stream\(\) got an unexpected .*'sizes'"):
        function("photos", size=(8, 8), sizes=3)
    with pytest.raises(TypeError, match=r"stream\(\) missing .*'size'"):
        function("photos")


def test_importing_imports_no_framework(tmp_path: Path) -> None:
    """Neither TensorFlow nor Keras, numpy, Pillow or pandas; and the check can fail."""
    heavy = ["numpy", "tensorflow", "keras", "PIL", "pandas"]
    code = f"import sys, gpuconf.images{{}}; print(set(sys.modules) & set({heavy}))"
    output = [run_python(code.format(more), tmp_path) for more in ("", ", numpy")]
    assert output == ["set()\n", "{'numpy'}\n"]


def test_scales() -> None:
    """Zero and 255 go where the name, factor or function says; None leaves them."""
    ways: list[tuple[Any, tuple[float, float]]] = [
        *(("0-1", (0, 1)), ("-1-1", (-1, 1)), (2, (0, 510)), (0.5, (0, 127.5))),
        (lambda images: images - 50, (-50, 205)),
    ]
    for scale, wanted in ways:
        step = make_scale(scale)
        assert step is not None
        assert (step(0.0), step(255.0)) == wanted
    assert make_scale(None) is make_augment(None) is None


def test_what_is_said_of_skipped_files(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for an epoch with some, none for one without; three names, and how many more.

    A file that Keras reads twice counts once; one that is in the list twice is two.
    """
    failures = Failures(20)
    failures.end_epoch()
    assert capsys.readouterr().err == ""
    for place, number in enumerate((0, 1, 2, 3, 4, 0)):
        failures.note(place, f"{number}.jpg", "is empty")
    failures.note(0, "0.jpg", "is empty")
    failures.end_epoch()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "skipped 6 of 20" in shown
    assert "2.jpg (is empty) and 2 more" in shown
    assert [failure.path for failure in failures] == [f"{number}.jpg" for number in range(5)]
    failures.note(0, "0.jpg", "is empty")
    failures.begin_epoch()  # the epoch before was left early
    failures.note(1, "1.jpg", "is empty")
    failures.end_epoch()
    assert "skipped 1 of 20" in capsys.readouterr().err
    assert len(failures) == 5
