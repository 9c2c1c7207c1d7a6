"""`python -m tests.acceptance [--card simulated|real]`: the promises of checks.py as a table.

With a real card the simulated one is run as well, and the table shows both, so that whatever
differs can be seen.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from pathlib import Path

from tests.acceptance.checks import ALL, Row
from tests.acceptance.stage import Stage, real_stage, simulated_stage

_VERSIONS = """
import platform
from importlib.metadata import PackageNotFoundError, version
found = [f"Python {platform.python_version()}"]
for name in ("tensorflow", "keras", "tf_keras"):
    try:
        found.append(f"{name} {version(name)}")
    except PackageNotFoundError:
        pass
print(", ".join(found))
"""


def describe(stage: Stage) -> str:
    """The date, the libraries and the card that a table is about."""
    out = subprocess.run(
        [stage.python, "-c", _VERSIONS], check=True, capture_output=True, text=True
    )
    gpu = stage.gpu()
    kind = "real GPU" if stage.is_real else "simulated card"
    card = f"{kind}: {gpu.name}, {(gpu.total_bytes or 0) >> 20} MiB"
    return f"{datetime.date.today()}: {out.stdout.strip()}; {card}"


def run_all(stage: Stage) -> list[Row]:
    """Every check's rows, with progress on stderr."""
    rows: list[Row] = []
    for check in ALL:
        print(f"{check.__name__} …", file=sys.stderr, flush=True)
        rows += check(stage)
    return rows


def as_markdown(titles: list[str], columns: list[list[Row]]) -> str:
    """A table with one "seen" column per run of the same checks."""
    seen = ["seen"] if len(columns) == 1 else ["seen on the real GPU", "seen on the simulated card"]
    lines = [*titles, "", _line("", "what", "expected", *seen), _line(*["---"] * (3 + len(seen)))]
    for same in zip(*columns, strict=True):
        mark = "✓" if all(row.is_good for row in same) else "**✗**"
        lines.append(_line(mark, same[0].what, same[0].expected, *(row.seen for row in same)))
    return "\n".join([*lines, ""])


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |"


def main() -> int:
    """Run, print the table, exit 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", choices=("simulated", "real"), default="simulated")
    parser.add_argument("--python", default=sys.executable, help="the Python that has TensorFlow")
    parser.add_argument("--write", type=Path, help="also write the table to this Markdown file")
    options = parser.parse_args()
    stages = [real_stage] * (options.card == "real") + [simulated_stage]
    titles, columns = [], []
    for make_stage in stages:
        with make_stage(options.python) as stage:
            titles.append(describe(stage))
            columns.append(run_all(stage))
    table = as_markdown(titles, columns)
    print(table)
    if options.write:
        options.write.write_text(table, encoding="utf-8")
    return 0 if all(row.is_good for rows in columns for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
