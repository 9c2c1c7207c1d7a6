"""`python -m tests.acceptance [--card simulated|real]`: the promises of checks.py as a table.

With a real GPU the simulated one is run as well, and the table shows both, so that whatever
differs can be seen; and those of framework_checks.py too, where the Python has PyTorch or JAX.
`make matrix` reads what ``--json`` prints.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from gpuconf.machine.cards import read_inventory
from tests.acceptance import framework_checks
from tests.acceptance.checks import ALL, Row
from tests.acceptance.matrix_page import plain
from tests.acceptance.stage import Stage, real_stage, simulated_stage

MakeStage: TypeAlias = Callable[[], AbstractContextManager[Stage]]
Table: TypeAlias = tuple[str, bool]

_WIDEST = 80  # of what a check saw; the tests show it whole
_TITLE = """\
# The acceptance on a real GPU

`make gpu` writes this page: what gpuconf promises, and what happened.

"""
_VERSIONS = """
import platform
from importlib.metadata import PackageNotFoundError, version
found = [f"Python {platform.python_version()}"]
for name in ("tensorflow", "keras", "tf_keras", "torch", "jax"):
    try:
        found.append(f"{name} {version(name)}")
    except PackageNotFoundError:
        pass
print(", ".join(found))
"""


def describe(stage: Stage) -> str:
    """The date, the libraries and the GPU that a table is about."""
    out = subprocess.run(
        [stage.python, "-c", _VERSIONS], check=True, capture_output=True, text=True
    )
    gpu = stage.gpu()
    kind = "real GPU" if stage.is_real else "simulated GPU"
    card = f"{kind}: {gpu.name}, {(gpu.total_bytes or 0) >> 20} MiB"
    return f"{datetime.date.today()}: {out.stdout.strip()}; {card}"


def run_all(stage: Stage) -> list[Row]:
    """Every check's rows, with progress on stderr."""
    rows: list[Row] = []
    for check in ALL:
        print(f"{check.__name__} …", file=sys.stderr, flush=True)
        rows += check(stage)
    return rows


def table_of(make_stages: Sequence[MakeStage], run: Callable[[Stage], list[Row]]) -> Table:
    """The table of what ``run`` sees on each of these stages, and whether all was as expected."""
    titles, columns = [], []
    for make_stage in make_stages:
        with make_stage() as stage:
            titles.append(describe(stage))
            columns.append(run(stage))
    return as_markdown(titles, columns), all(row.is_good for rows in columns for row in rows)


def framework_tables(python: str) -> Iterator[Table]:
    """Of each framework that ``python`` has, what a real GPU shows next to simulated ones."""
    count = min(len(read_inventory().gpus), 2)
    for framework in framework_checks.TITLES:
        has = subprocess.run(
            [python, "-c", f"import {framework}"], check=False, capture_output=True
        )
        if has.returncode != 0:
            print(f"{framework} is not installed for {python}: not run", file=sys.stderr)
            continue
        simulated = partial(simulated_stage, count=count, framework=framework)
        yield table_of(
            [partial(real_stage, python), simulated],
            lambda stage, name=framework: [  # type: ignore[misc]
                row for check in framework_checks.ALL for row in check(stage, name)
            ],
        )


def as_markdown(titles: list[str], columns: list[list[Row]]) -> str:
    """A table with one "seen" column per run of the same checks."""
    seen = ["seen"] if len(columns) == 1 else ["seen on the real GPU", "seen on the simulated GPU"]
    lines = [*titles, "", _line("", "what", "expected", *seen), _line(*["---"] * (3 + len(seen)))]
    for same in zip(*columns, strict=True):
        mark = "✓" if all(row.is_good for row in same) else "**✗**"
        lines.append(_line(mark, same[0].what, same[0].expected, *(row.seen for row in same)))
    return "\n".join([*lines, ""])


def _line(*cells: str) -> str:
    return f"| {' | '.join(plain(cell, _WIDEST) for cell in cells)} |"


def _print_found(make_stage: MakeStage) -> int:
    with make_stage() as stage:
        rows = run_all(stage)
        print(json.dumps({"about": describe(stage), "rows": rows}))
    return 0 if all(row.is_good for row in rows) else 1


def main() -> int:
    """Run, print the table, exit 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", choices=("simulated", "real"), default="simulated")
    parser.add_argument("--python", default=sys.executable, help="the Python that has TensorFlow")
    parser.add_argument("--write", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--json", action="store_true", help="the rows on the simulated GPU")
    options = parser.parse_args()
    stages: list[MakeStage] = [partial(simulated_stage, options.python)]
    if options.json:
        return _print_found(stages[0])
    if options.card == "real":
        stages.insert(0, partial(real_stage, options.python))
    found = [table_of(stages, run_all)]
    found += framework_tables(options.python) if options.card == "real" else []
    page = "\n".join(table for table, _ in found)
    print(page)
    if options.write:
        options.write.write_text(_TITLE + page, encoding="utf-8")
    return 0 if all(is_good for _, is_good in found) else 1


if __name__ == "__main__":
    sys.exit(main())
