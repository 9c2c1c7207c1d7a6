"""The picture of what held the memory: what is in it, from real logs and from odd ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, KIB, MIB
from gpuconf.commands.explain import Diagnosis, explain, plot
from gpuconf.support.failures.facts.allocations import Allocations, NodeAllocation
from gpuconf.support.failures.facts.dump import Chunks, Dump
from gpuconf.support.failures.reading import LogFacts
from tests.support.reporting.outline import texts_of

pytestmark = pytest.mark.slow  # draws

SIMULATED = Path(__file__).parent / "simulated"


def diagnosis_of(name: str) -> Diagnosis:
    """The diagnosis of a log that was made on the simulated GPU."""
    return explain((SIMULATED / name).read_bytes())


def drawn(diagnosis: Diagnosis, folder: Path) -> list[str]:
    """The texts in the plot."""
    file = folder / "a.svg"
    plot.draw(diagnosis, str(file))
    return texts_of(file)


def refusal_with(**facts: object) -> Diagnosis:
    """A tensor's refusal with these facts."""
    return Diagnosis("oom-device-tensor", "failure", facts=LogFacts(**facts))  # type: ignore[arg-type]


def test_pieces(tmp_path: Path) -> None:
    """The title, what is in use, what was requested, and the largest free chunk."""
    texts = drawn(diagnosis_of("logs/fragmentation.log"), tmp_path)
    assert "GPU memory is fragmented" in texts
    assert "in use 448 MiB" in texts
    assert "requested 192 MiB" in texts
    assert "GPU_0_bfc, limit 1024 MiB; free chunks pale, the largest 128 MiB" in texts
    assert {"chunks in use, by size", "7 × 64 MiB", "MiB"} <= set(texts)


def test_layers(tmp_path: Path) -> None:
    """Where the log has TensorFlow's report, the bars are the layers, with their sizes."""
    texts = drawn(diagnosis_of("logs/oom-session-report.log"), tmp_path)
    assert {"memory by layer", "conv1", "900 MiB", "to_planes", "450 MiB"} <= set(texts)
    assert "chunks in use, by size" not in texts


def test_what_the_card_did_not_give(tmp_path: Path) -> None:
    """Is hatched, and the plot says so."""
    (title,) = (
        text
        for text in drawn(diagnosis_of("logs/startup-neighbor.log"), tmp_path)
        if "limit" in text
    )
    assert title.endswith("; hatched: not claimed from the GPU")


@pytest.mark.parametrize(
    "log", sorted(path.relative_to(SIMULATED).as_posix() for path in SIMULATED.glob("*/oom-*"))
)
def test_every_refusal_is_drawn(log: str, tmp_path: Path) -> None:
    """As PNG, without a display; no warning of matplotlib's layout (warnings are errors)."""
    diagnosis = diagnosis_of(log)
    if not plot.has_picture(diagnosis.facts):
        assert diagnosis.facts.dump is None
        return
    file = tmp_path / "a.PNG"
    plot.draw(diagnosis, str(file))
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("asked", "in_use", "limit"),
    [(0, 0, 1), (1, GIB, GIB), (64 * GIB, 0, GIB), (GIB, 0, GIB), (3 * KIB, 40 * KIB, 64 * KIB)],
)
def test_what_was_asked_for_is_within_the_axis(
    tmp_path: Path, asked: int, in_use: int, limit: int
) -> None:
    """Next to nothing, as much as there is, and many times that."""
    dump = Dump(
        1,
        requested_bytes=asked,
        limit_bytes=limit,
        in_use_bytes=in_use,
        in_use=(Chunks(in_use, 1),),
        free_chunks=(limit - in_use,),
    )
    texts = drawn(refusal_with(dump=dump), tmp_path)
    assert any(text.startswith("requested") for text in texts)


def test_whether_there_is_anything_to_draw() -> None:
    """A dump with sizes or a table with rows; a log without, or with empty ones, has none."""
    empty = Allocations(1, "GPU:0", "GPU_0_bfc", (), 0)
    assert not plot.has_picture(LogFacts())
    assert not plot.has_picture(LogFacts(allocations=empty))
    assert not plot.has_picture(LogFacts(dump=Dump(0, allocator="GPU_0_bfc", limit_bytes=0)))
    assert plot.has_picture(LogFacts(allocations=empty._replace(rest_bytes=1)))
    assert not plot.has_picture(LogFacts(dump=Dump(0, limit_bytes=GIB)))
    assert plot.has_picture(LogFacts(dump=Dump(0, limit_bytes=GIB, in_use_bytes=1)))
    assert plot.has_picture(LogFacts(dump=Dump(0, in_use=(Chunks(GIB, 1),))))


def test_a_dump_that_was_cut_off(tmp_path: Path) -> None:
    """Without the free chunks, free memory is one piece; without the sums, chunks are bars."""
    sums = Dump(1, limit_bytes=4 * MIB, in_use_bytes=MIB, unclaimed_bytes=MIB)
    assert "in use 1 MiB" in drawn(refusal_with(dump=sums), tmp_path)
    assert "3 × 1 MiB" in drawn(refusal_with(dump=Dump(1, in_use=(Chunks(MIB, 3),))), tmp_path)


def test_many_holders_are_a_few_bars(tmp_path: Path) -> None:
    """The largest by name, the others as one; nothing is lost of the sum, and units fit."""
    nodes = tuple(NodeAllocation(f"layer{number}", GIB // (number + 1)) for number in range(30))
    table = Allocations(1, "GPU:0", "GPU_0_bfc", nodes, 5)
    bars = plot.holders(LogFacts(allocations=table))
    assert len(bars) == 13
    assert (bars[0].name, bars[-1].name) == ("layer0", "(smaller ones)")
    assert sum(bar.size_bytes for bar in bars) == table.total_bytes
    tiny = Allocations(1, "GPU:0", "GPU_0_bfc", (NodeAllocation("bias", 512),), 0)
    assert {"bias", "512 B", "KiB"} <= set(drawn(refusal_with(allocations=tiny), tmp_path))


def test_a_long_name_keeps_its_end(tmp_path: Path) -> None:
    """Where the layer's own name stands; what XML and matplotlib read as signs is text."""
    name = "model/" + "block/" * 20 + "conv<1>$x^2$"
    texts = drawn(
        refusal_with(allocations=Allocations(1, "GPU:0", "bfc", (NodeAllocation(name, GIB),), 0)),
        tmp_path,
    )
    assert any(text.startswith("…") and len(text) <= 48 for text in texts), texts
