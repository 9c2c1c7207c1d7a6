"""`python tests/acceptance --card simulated|real`: the promises as a table."""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from checks import ALL, Row
from stage import Stage, real_stage, simulated_stage


def versions(stage: Stage) -> str:
    """The card and the libraries the table is about."""
    code = (
        "import platform; from importlib.metadata import version, PackageNotFoundError\n"
        "def v(n):\n    try: return f'{n} {version(n)}'\n"
        "    except PackageNotFoundError: return ''\n"
        "found = [v(n) for n in ('tensorflow', 'keras', 'tf_keras')]\n"
        "print(f'Python {platform.python_version()}', *filter(None, found), sep=', ')"
    )
    out = subprocess.run([stage.python, "-c", code], check=True, capture_output=True, text=True)
    gpu = stage.gpu()
    kind = "real GPU" if stage.is_real else "simulated card"
    return f"{out.stdout.strip()}; {kind}: {gpu.name}, {(gpu.total_bytes or 0) >> 20} MiB"


def as_markdown(rows: list[Row], title: str) -> str:
    """The rows as a Markdown table."""
    lines = [title, "", "| | what | expected | seen |", "|---|---|---|---|"]
    for row in rows:
        cells = (cell.replace("|", "\\|").replace("\n", " ") for cell in row[:3])
        lines.append(f"| {'✓' if row.is_good else '**✗**'} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Run every check, print the table, exit 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", choices=("simulated", "real"), default="simulated")
    parser.add_argument("--python", default=sys.executable, help="the Python that has TensorFlow")
    parser.add_argument("--write", type=Path, help="also write the table to this Markdown file")
    options = parser.parse_args()
    stage_of = real_stage if options.card == "real" else simulated_stage
    rows: list[Row] = []
    with stage_of(options.python) as stage:
        title = f"{datetime.date.today()}: {versions(stage)}"
        for check in ALL:
            print(f"{check.__name__} …", file=sys.stderr, flush=True)
            rows += check(stage)
    table = as_markdown(rows, title)
    print(table)
    if options.write:
        options.write.write_text(table, encoding="utf-8")
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
