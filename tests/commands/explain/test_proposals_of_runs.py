"""Where a script cannot take `import gpuconf.auto`, or need not: `gpuconf run`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

import pytest

from gpuconf import load_profile
from gpuconf.basics.units import GIB
from gpuconf.commands.explain import Proposal, explain
from gpuconf.commands.run.request import add_arguments, request_of
from gpuconf.profile import Profile
from gpuconf.support.failures.facts.card import LoggedCard
from gpuconf.support.failures.facts.tensor import MemoryRequest, tensor_of
from gpuconf.support.failures.proposals import proposals_for
from gpuconf.support.failures.reading import LogFacts

OLD: dict[str, dict[str, Any]] = {
    "TensorFlow 1": {"versions": {"tensorflow": "1.8.0"}},
    "TensorFlow 2.12": {"versions": {"tensorflow": "2.12.0"}},
    "Python 3.6": {"versions": {"python": "3.6"}},
    "by its paths": {"shows_old_tensorflow": True},
}
# What each cause must show of the log for a profile to be proposed.
WALL = LogFacts(
    MemoryRequest(tensor_of((64, 28, 28, 32), "float"), 2**20, node="conv/Conv2D"),
    card=LoggedCard(total_bytes=8 * GIB, free_bytes=8 * GIB, limit_bytes=2 * GIB),
)
CAUSES = {
    **dict.fromkeys(("oom-device-startup", "cublas-alloc", "cudnn-internal"), LogFacts()),
    **dict.fromkeys(("growth-mismatch", "late-config", "fragmentation"), LogFacts()),
    "oom-device-tensor": WALL,
}


def ours(cause: str, **known: Any) -> list[Proposal]:
    """The proposals that have gpuconf hold the script."""
    facts = CAUSES[cause]._replace(**known)
    found = proposals_for(cause, "failure", facts)
    return [each for each in found if "gpuconf.auto" in each.paste or "gpuconf run" in each.paste]


def profile_of(command: str) -> Profile:
    """The profile of a proposed `gpuconf run`, as its own parser reads the options."""
    words = shlex.split(command)
    assert words[:2] == ["gpuconf", "run"]
    end = words.index("--")
    assert words[end:] == ["--", "python", "train.py"]
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return request_of(parser.parse_args(words[2:end])).load()


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("stack", OLD)
def test_an_old_stack_gets_a_run(cause: str, stack: str) -> None:
    """One command, and why; never a line that its script could not import."""
    found = ours(cause, **OLD[stack])
    if cause == "fragmentation" and stack == "TensorFlow 1":
        assert found == []  # which has no other allocator
        return
    (each,) = found
    assert each.kind == "command"
    assert each.paste.startswith("gpuconf run ")
    assert "gpuconf needs Python 3.10 and TensorFlow 2.15" in each.reason


@pytest.mark.parametrize("cause", sorted(CAUSES.keys() - {"late-config"}))
def test_the_options_say_what_the_profile_says(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old stack's command and a new stack's file are the same profile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUCONF_PROFILE", raising=False)
    (of_new,), (of_old,) = ours(cause), ours(cause, shows_old_tensorflow=True)
    file = tmp_path / "asked.yaml"
    file.write_text(of_new.paste, "utf-8")
    given, asked = load_profile(file), profile_of(of_old.paste)
    assert (asked.gpus, asked.memory, asked.tensorflow) == (
        given.gpus,
        given.memory,
        given.tensorflow,
    )


@pytest.mark.parametrize("cause", CAUSES)
def test_a_new_stack_has_the_choice(cause: str) -> None:
    """What requests a line in the script says how to do without."""
    for each in ours(cause, versions={"tensorflow": "2.16.1", "python": "3.11"}):
        assert "import gpuconf.auto" in each.paste
        assert "gpuconf run -- python train.py" in each.paste + each.reason


def test_windows_and_other_frameworks_get_none() -> None:
    """gpuconf run is for Linux; and a log of PyTorch says nothing of TensorFlow's age."""
    old = {"versions": {"tensorflow": "1.15"}}
    for known in ({"on_windows": True}, {"framework": "torch"}):
        for cause in CAUSES:
            assert len(ours(cause, **old)) == 1 or cause == "fragmentation"
            found = ours(cause, **old, **known)
            assert not any("gpuconf run" in each.paste.splitlines()[0] for each in found)


@pytest.mark.parametrize(
    ("line", "is_old"),
    [
        ("2018-05-01 I tensorflow/stream_executor/cuda/cuda_dnn.cc:397] Loaded cuDNN", True),
        ("E tensorflow/compiler/xla/stream_executor/cuda/cuda_blas.cc:617] failed", True),
        ("E external/local_xla/xla/stream_executor/cuda/cuda_blas.cc:196] failed", False),
        ('  File "/usr/lib/site-packages/tensorflow_core/python/client/session.py"', True),
        ("    set_session(tf.Session(config=config))", True),
        ("    session = tf.compat.v1.Session(config=config)", False),
        ("from keras.backend.tensorflow_backend import set_session", True),
        ('  File "/x/keras/backend/tensorflow_backend.py", line 2478, in __call__', True),
        ("InternalError: Failed to create cublas handle: tensorflow", False),
    ],
)
def test_signs_of_an_old_tensorflow(line: str, is_old: bool) -> None:
    """Paths and calls that 2.15 has no more; what newer ones print is none."""
    log = f"{line}\nE failed to create cublas handle: CUBLAS_STATUS_ALLOC_FAILED\n"
    assert explain(log).facts.shows_old_tensorflow is is_old
