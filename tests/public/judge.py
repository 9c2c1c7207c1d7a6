"""Judge `rehearse` and `estimate` by runs to the end: ``python -m tests.public.judge``.

For each script: a run to the end on a large GPU gives its peak; two GPUs, a quarter above and a
quarter below that, are confirmed by runs to the end; `gpuconf rehearse` is asked about both, and
`gpuconf estimate` for the peak. What was found is kept for each script, so that a judge who is
stopped goes on where it was; --again STAGE asks again.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
from typing import Any

from tests.public import runs, tables
from tests.public.listing import SOURCES, Script, read

ABOVE, BELOW = (1.25, 1.5, 2.0), (0.75, 0.6, 0.45, 0.3)
STAGES = ("run", "above", "below", "rehearse", "estimate")


def main() -> int:
    options = parse()
    chosen = [script for script in read() if not options.only or script.name in options.only]
    options.results.mkdir(parents=True, exist_ok=True)
    for script in chosen:
        file = options.results / f"{script.name}.json"
        facts = json.loads(file.read_text()) if file.exists() else {}
        for stage in options.again:
            facts.pop(stage, None)
        for stage in options.stages:
            judge(script, stage, facts, options.sources)
            file.write_text(json.dumps(facts, indent=1))
        print(script.name, tables.summary(facts), flush=True)
    print(tables.report(read(), options.results))
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--sources", type=pathlib.Path, default=SOURCES)
    add("--results", type=pathlib.Path, default=SOURCES / "results")
    add("--only", nargs="*", metavar="NAME", help="these scripts alone")
    add("--stages", nargs="*", choices=STAGES, default=STAGES)
    add("--again", nargs="*", choices=STAGES, default=[], help="forget what was found")
    return parser.parse_args()


def judge(script: Script, stage: str, facts: dict[str, Any], sources: pathlib.Path) -> None:
    """Do one stage, unless it is done or what it needs is missing."""
    if stage in facts or (stage != "run" and facts.get("run", {}).get("ended") != "well"):
        return
    if stage == "run":
        facts["run"] = runs.run_to_end(script, sources, runs.BIG_CARD_BYTES)
    elif stage in ("above", "below"):
        factors, ending = (ABOVE, "well") if stage == "above" else (BELOW, "out of memory")
        facts[stage] = confirmed(facts["run"]["peak_bytes"], factors, ending, script, sources)
    elif stage == "rehearse":
        cards = {side: facts[side]["card_bytes"] for side in ("above", "below") if side in facts}
        facts["rehearse"] = {
            side: runs.rehearse(script, sources, card) for side, card in cards.items()
        }
        facts["rehearse"]["commit"] = commit()
    else:
        facts["estimate"] = {**runs.estimate(script, sources), "commit": commit()}


def confirmed(
    peak_bytes: int, factors: tuple[float, ...], ending: str, script: Script, sources: pathlib.Path
) -> dict[str, Any]:
    """The first GPU, by these parts of the peak, on which a run to the end ends so."""
    tried: list[dict[str, Any]] = []
    for factor in factors:
        found = runs.run_to_end(script, sources, runs.card_for(int(peak_bytes * factor)))
        tried.append({**found, "factor": factor})
        if found["ended"] == ending:
            break
    return {**tried[-1], "before": tried[:-1]}


def commit() -> str:
    """The version that was judged."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
