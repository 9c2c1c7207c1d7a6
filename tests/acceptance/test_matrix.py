"""`make matrix`: its page is whole or left alone, and the page that is committed is whole."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconf.simcard.bridge import TRIED_VERSIONS
from tests.acceptance import framework_matrix, matrix, xla_matrix
from tests.acceptance.checks import Row
from tests.acceptance.framework_checks import TITLES
from tests.acceptance.matrix_page import WRITTEN, part_of, parts_of
from tests.frameworks.installed import GATE

ABOUT = "today: tensorflow 2.0.1; simulated GPU"


def printing(*rows: Row, about: str = ABOUT) -> list[str]:
    """A command that prints these rows as the acceptance does."""
    text = json.dumps({"about": about, "rows": rows})
    return [sys.executable, "-c", f"print({text!r})"]


GOOD = printing(Row("a limit", "4 MiB", "4 MiB", is_good=True))
FAILED_CHECK = printing(Row("a limit", "4 MiB", "9 MiB", is_good=False))
ALL_THERE = dict.fromkeys(("one", "two"), "all 9 names are there")
TENSORFLOWS = "# What holds on which TensorFlow"
CRASH = [sys.executable, "-c", "import sys; sys.exit('the GPU fell out')"]


def test_the_committed_page_is_whole() -> None:
    """docs/matrix.md as it is committed: a column for each environment, and no row failed.

    It runs nothing: `make matrix` does, and writes the page.  Every version that the kernel bridge
    says it was tried with has a column, and no other has one.
    """
    page = part_of(WRITTEN.read_text(encoding="utf-8"), TENSORFLOWS)
    about = re.findall(r"\n- \d{4}-\d\d-\d\d: .*", page)
    assert len(about) == len(matrix.ENVIRONMENTS)
    for line, packages in zip(about, matrix.ENVIRONMENTS.values(), strict=True):
        assert packages[0].replace("==", " ") in line
        assert re.search(r"; private names: all \d+ names are there$", line)
    head, _, *rows = (line.split(" | ") for line in page.splitlines() if line.startswith("| "))
    versions = [re.search(r"\d+\.\d+", cell) for cell in head[2:-1]]
    assert {match[0] for match in versions if match is not None} == set(TRIED_VERSIONS)
    assert len(rows) > 30
    assert all(row[2:-1] == [matrix.TICK] * len(about) for row in rows)
    assert matrix.CROSS not in page


def test_the_part_about_other_frameworks_is_whole() -> None:
    """A column for each version, those of the gate among them; what failed is explained."""
    part = part_of(WRITTEN.read_text(encoding="utf-8"), framework_matrix.HEAD)
    _, *sections = part.split("\n## ")
    assert len(sections) == len(TITLES)
    for section, (name, versions) in zip(sections, framework_matrix.VERSIONS.items(), strict=True):
        assert section.startswith(TITLES[name])
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")]
        rows = [[cell.strip("| ") for cell in row] for row in rows]
        assert [row[0] for row in rows[2:]] == ["Keras", *framework_matrix.CHECKS.values()]
        _, *columns = zip(*rows, strict=True)
        assert [column[0] for column in columns] == list(versions)
        assert {*columns[versions.index(GATE[name])][2:]} == {"✓"}
        for version, *cells in columns:
            assert set(cells) <= {"---", "✓"} or f"\n- {version}: " in section


def test_the_part_about_xla_is_whole() -> None:
    """A row for each TensorFlow of the matrix; every step compiles, and what failed is named."""
    part = part_of(WRITTEN.read_text(encoding="utf-8"), xla_matrix.HEAD)
    versions = re.findall(r"\n\| TensorFlow (\d+\.\d+)\.\d+ \|", part)
    assert versions == list(TRIED_VERSIONS)
    assert len(versions) == len(matrix.ENVIRONMENTS)
    rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| TensorFlow")]
    for cells in rows:
        assert cells[1:-1:2] == ["✓"] * len(xla_matrix.COMPILED)
        dead = [cell for cell in cells[2:-1:2] if cell == "✗"]
        assert part.count(f"\n- {cells[0].split()[-1]} ") == len(dead)
    assert part.count("| op by op |") == len(versions)


def test_a_row_about_xla_shows_what_failed() -> None:
    """A step that did not compile, one that took other memory, one that the process failed over."""
    facts: list[dict[str, Any]] = [
        {"version": "2.15.1", "model": "mlp", "what": "compile_step", "predicted_bytes": 1},
        {"version": "2.15.1", "model": "mlp", "what": "run_steps",
         "predicted_bytes": 900, "peak_bytes": 1000},
        {"version": "2.15.1", "model": "cnn", "what": "compile_step", "error": "no"},
        {"version": "2.15.1", "model": "recurrent", "what": "resolve_jit", "jit": True},
    ]  # fmt: skip
    row = xla_matrix.row_of(facts)
    assert row == ["TensorFlow 2.15.1", "✓", "✗ -10.00%", *"✗" * 6, "XLA"]
    text = (
        "allocation 0: size 1000, parameter 0, shape |f32[250]| at ShapeIndex {}:\n"
        "allocation 1: size 4000, parameter 1, maybe-live-out:\n"
        "allocation 2: size 70000, preallocated-temp:\n"
        "allocation 3: size 8, thread-local:\n"
        "Total bytes used: 75008\nallocation 4: size 5, preallocated-temp:\n"
    )
    assert xla_matrix.predicted_bytes(text, 2560) == 2560 + 1024 + 70144


def test_each_writer_leaves_the_others_part(tmp_path: Path) -> None:
    """A table for each TensorFlow and those of the others are in one page, of two commands."""
    page = tmp_path / "page.md"
    assert matrix.write_page({"one": GOOD}, page, ALL_THERE) == 0
    framework_matrix.write_part(["## JAX\n"], page)
    framework_matrix.write_part(["## PyTorch\n"], page)
    assert matrix.write_page({"one": GOOD, "two": GOOD}, page, ALL_THERE) == 0
    tensorflow, others = parts_of(page.read_text(encoding="utf-8"))
    assert tensorflow.startswith(TENSORFLOWS)
    assert tensorflow.count("\n- today: tensorflow 2.0.1; private names: all 9") == 2
    assert "\n| a limit | 4 MiB | ✓ | ✓ | 4 MiB |" in tensorflow
    assert others.startswith(framework_matrix.HEAD)
    assert re.findall("## .*", others) == ["## PyTorch"]


def test_a_failed_check_is_shown(tmp_path: Path) -> None:
    """With what was seen, below the table; and is exit code 1."""
    page = tmp_path / "page.md"
    assert matrix.write_page({"one": FAILED_CHECK, "two": GOOD}, page, ALL_THERE) == 1
    text = page.read_text(encoding="utf-8")
    assert "\n| a limit | 4 MiB | ✗ | ✓ | 4 MiB |\n" in text
    assert text.endswith("\n- 2.0.1: a limit: 9 MiB\n")


def test_what_only_some_versions_saw_is_shown(tmp_path: Path) -> None:
    """Below the table, where the newest saw something else; versions that agree are together."""
    seen = Row("a limit", "4 MiB", "4.1 MiB", is_good=True)
    commands = {
        "one": printing(seen, about="today: tensorflow 1.9.9; GPU"),
        "two": printing(seen, about="today: tensorflow 2.0.0; GPU"),
        "three": GOOD,
    }
    page = tmp_path / "page.md"
    assert matrix.write_page(commands, page, dict.fromkeys(commands, "all there")) == 0
    text = page.read_text(encoding="utf-8")
    assert "\n| what | expected | 1.9.9 | 2.0.0 | 2.0.1 | seen |\n" in text
    assert text.endswith("\n- 1.9.9, 2.0.0: a limit: 4.1 MiB\n")


def test_a_crash_leaves_the_page_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An environment without rows: it is named, its stderr shown, and nothing written."""
    page = tmp_path / "page.md"
    page.write_text("the good page")
    with pytest.raises(matrix.MatrixError, match=r"two printed no rows \(exit code 1\)"):
        matrix.write_page({"one": GOOD, "two": CRASH}, page, ALL_THERE)
    assert page.read_text() == "the good page"
    assert "two:\nthe GPU fell out" in capfd.readouterr().err


def test_a_missing_name_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    """The names that an environment lacks are shown, and no acceptance begins."""
    assert matrix.contract_of("one", [sys.executable, "-c", "print('all 9')"]) == "all 9"
    lacking = [sys.executable, "-c", "print('no _a'); raise SystemExit(1)"]
    with pytest.raises(matrix.MatrixError, match=r"two lacks private names.*\nno _a"):
        matrix.contract_of("two", lacking)
    assert "two: private names" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("packages", "python", "is_possible"),
    [
        (["tensorflow==2.15.1"], (3, 11), True),
        (["tensorflow==2.15.1"], (3, 12), False),
        (["tensorflow==2.15.1"], (3, 13), False),
        (["tensorflow==2.19.1"], (3, 12), True),
        (["tensorflow==2.19.1"], (3, 13), False),
        (["tensorflow", "tf_keras"], (3, 13), True),
    ],
)
def test_a_python_without_a_wheel(
    packages: list[str], python: tuple[int, int], is_possible: bool
) -> None:
    """Where pip would find nothing, the command that works is told instead."""
    reason = matrix.why_not(packages, python)
    assert (reason is None) == is_possible
    assert is_possible or "make PYTHON=python3.11 matrix" in (reason or "")
