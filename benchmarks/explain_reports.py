"""How many public reports `gpuconf explain` diagnoses correctly: FOLDER with the reports' texts.

The texts belong to other people and are not part of the project; explain_reports.yaml has the
source and the label of each.  Fetch them by hand: open a source, copy the log and its author's
description into FOLDER/ID.txt, such as 07.txt for id 7.  Then::

    python -m benchmarks.explain_reports FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from gpuconf.diagnosis import explain

LIST = Path(__file__).with_suffix(".yaml")


def main(folder: Path) -> int:
    """Print the wrong diagnoses and the counts; return 1 if the folder has none of the reports."""
    reports: list[dict[str, Any]] = yaml.safe_load(LIST.read_text("utf-8"))["reports"]
    found = [(each, folder / f"{each['id']:02d}.txt") for each in reports]
    there = [(each, file) for each, file in found if file.is_file()]
    if not there:
        print(f"no report in {folder}: expected files such as {found[0][1].name}")
        return 1
    right = {"label": [0, 0], "accepted": [0, 0]}
    for each, file in there:
        diagnosis = explain(file.read_bytes())
        values = (diagnosis.cause, diagnosis.severity)
        for place, (value, known) in enumerate(
            zip(values, (each["causes"], each["severities"]), strict=True)
        ):
            right["label"][place] += value == known[0]
            right["accepted"][place] += value in known
            if value not in known:
                print(f"{file.name}: {value} instead of {known[0]}  {each['source']}")
    for name, (causes, severities) in right.items():
        print(f"{name}: cause {causes}, severity {severities}, of {len(there)}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
