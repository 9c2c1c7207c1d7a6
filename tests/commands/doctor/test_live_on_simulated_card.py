"""The probe with real TensorFlow on the simulated GPU."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.live import LiveReport, measure
from gpuconf.simcard import Card, build_libraries, simulated_card
from tests.commands.doctor.live_records import TENSORFLOWS, by_id
from tests.programs import warm
from tests.programs.card_clients import STORY
from tests.programs.processes import clean_environment, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_programs")]

# What a real CUDA context takes, more or less; without it a full GPU still has room for one.
_CARD = STORY._replace(context_bytes=450 * MIB)
_FULL = _CARD._replace(used_bytes=int(_CARD.total_bytes * 0.98))
# No limit: TensorFlow's own rules, for whoever writes no profile of care.
_CARELESS = "gpus: all\nmemory: {allow_growth: true}\n"
_TIGHT = "gpus: all\nmemory: {allow_growth: true, context: 300MiB}\n"

Probe = Callable[..., LiveReport]


@pytest.fixture
def probe(bridge: Path, tmp_path: Path) -> Probe:
    """Probe a GPU under a profile: a shipped one's name, or the text of one."""

    def begin(
        card: Card, profile: str, progress: Callable[[str], None] = lambda _: None
    ) -> LiveReport:
        if "\n" in profile:
            (tmp_path / "own.yaml").write_text(profile, encoding="utf-8")
            profile = str(tmp_path / "own.yaml")
        environ = card.environment(clean_environment(tmp_path), bridge=bridge)
        return measure(profile, timeout_s=120, progress=progress, environ=environ)

    return begin


def test_shared_desktop_passes(probe: Probe) -> None:
    """All six are ok; the context's size and the allocator's use are measured."""
    steps_shown: list[str] = []
    with simulated_card(_CARD) as card:
        report = probe(card, "shared-desktop", steps_shown.append)
        assert card.processes() == ()
    found = by_id(report)
    assert {name: finding.status for name, finding in found.items()} == dict.fromkeys(
        TENSORFLOWS, "ok"
    )
    assert "450 MiB next to its limit of 7884 MiB" in found["live.headroom"].summary
    measured = found["live.matmul"].detail[0]
    assert re.search(r"\d s, .*this process 4\d\d MiB, tensors at most \d+ MiB$", measured)
    assert any("starting TensorFlow" in line for line in steps_shown)
    ((_, _, steps, _),) = report.runs
    before, after = steps[1].before[0], steps[1].after[0]
    assert after.used_bytes is not None
    assert after.used_bytes - (before.used_bytes or 0) == 450 * MIB
    assert after.own_bytes == 450 * MIB
    assert (steps[4].after[0].peak_bytes or 0) > MIB


def test_a_full_card_under_a_profile_that_refuses(probe: Probe) -> None:
    """98 % full: the profile says so itself, with its sum, before TensorFlow starts."""
    with simulated_card(_FULL) as card:
        report = probe(card, "shared-desktop")
    found = by_id(report)
    assert found["live.start"].status == "fail"
    assert "not enough GPU memory" in found["live.start"].summary
    assert any(
        "225 MiB free - 512 MiB keep_free - 640 MiB context" in line
        for line in found["live.start"].detail
    )
    assert found["live.start"].detail[-1].startswith("hint: ")
    assert (found["live.start"].fix or "").startswith("gpuconf ps   #")
    ((_, _, (start,), _),) = report.runs
    assert (start.seconds or 0) < 2


def test_a_full_card_among_two(probe: Probe) -> None:
    """Together TensorFlow makes neither; alone the first trains, and the second is named.

    98 % of it is full: TensorFlow lists it, and its context cannot be made.
    """
    with simulated_card(_CARD._replace(count=2)) as card:
        card.set_desktop_bytes(_FULL.used_bytes, index=1)
        report = probe(card, _CARELESS)
        uuids = [card.uuid(index) for index in (0, 1)]
    assert [run.only for run in report.runs] == [None, 0, 1]
    failed = [each for each in report.findings if each.status == "fail"]
    assert [each.id for each in failed] == ["live.context"]
    assert uuids[1][:12] in failed[0].summary
    assert "the GPU was so full that CUDA could not even start" in failed[0].summary
    assert "225 MiB of 11264 MiB was free before the probe" in failed[0].detail
    assert f"CUDA_VISIBLE_DEVICES={uuids[0]}" in (failed[0].fix or "")
    fit = next(each for each in report.findings if each.id == "live.fit")
    assert fit.status == "ok"


def test_two_cards_with_too_little_headroom(probe: Probe, tmp_path: Path) -> None:
    """Both train in one child; the limit and the context are more than was free: a warning each.

    The command of the fix, as pasted, writes a profile that plans less.
    """
    with simulated_card(_CARD._replace(count=2)) as card:
        report = probe(card, _TIGHT)
        room = [each for each in report.findings if each.id == "live.headroom"]
        pasted = (room[0].fix or "").replace("gpuconf doctor --probe", "gpuconf plan --json")
        done = run(["bash", "-c", pasted], tmp_path, environ=_with_gpuconf(card))
    assert len(report.runs) == 1
    found = {each.id: each for each in report.findings if each.id != "live.headroom"}
    assert {each.status for each in found.values()} == {"ok"}
    assert "2 GPUs" in found["live.fit"].summary
    assert [each.status for each in room] == ["warn", "warn"]
    assert "leaves 0 MiB for cuDNN" in room[0].summary
    assert done.returncode == 0, done.stderr
    assert f'"limit_bytes": {(11264 - 1945 - 1536) * MIB}' in done.stdout


def test_killed_in_the_fit(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL in the middle of a real training: the step, the signal, and where to look."""
    monkeypatch.delenv(warm.VARIABLE)  # the child is found by its command line

    def kill(step: str) -> None:
        if step.startswith("fit"):
            os.kill(_child(), signal.SIGKILL)

    with simulated_card(_CARD) as card:
        found = by_id(probe(card, "shared-desktop", kill))
        assert card.processes() == ()
    assert found["live.convolution"].status == "ok"
    assert "killed by SIGKILL in the fit step" in found["live.fit"].summary
    assert "dmesg" in (found["live.fit"].fix or "")


def test_a_missing_library_is_named(
    probe: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML has the GPU, and TensorFlow lists none for lack of cuDNN, which it is made to name."""
    monkeypatch.delenv(warm.VARIABLE)  # TensorFlow loads its libraries with the import
    with simulated_card(_CARD) as card, _without("libcudnn.so*", tmp_path) as libraries:
        found = by_id(probe(Card(card.path, libraries=libraries), "shared-desktop"))
    assert found["live.start"].status == "fail"
    assert "libcudnn.so." in found["live.start"].summary
    assert found["live.start"].fix == "pip install 'tensorflow[and-cuda]'"


def _with_gpuconf(card: Card) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return card.environment({"PATH": path})


@contextmanager
def _without(pattern: str, folder: Path) -> Iterator[Path]:
    """A copy of the stand-in libraries that lacks some."""
    copied = shutil.copytree(build_libraries(), folder / "libraries")
    for library in copied.glob(pattern):
        library.unlink()
    yield copied


def _child() -> int:
    """The probe's child of this process."""
    for folder in Path("/proc").iterdir():
        with suppress(OSError, IndexError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"live.program" in (folder / "cmdline").read_bytes():
                return int(folder.name)
    raise LookupError("no child")
