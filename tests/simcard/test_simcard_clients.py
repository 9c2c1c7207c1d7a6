"""What a client sees of a simulated GPU: the programs of clients.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuconf.simcard import simulated_card
from tests.programs.card_clients import STORY, RunClient
from tests.simcard.old_cuda import old_card

GROUPS = yaml.safe_load(Path(__file__).with_name("clients.yaml").read_text(encoding="utf-8"))
PROGRAMS: dict[str, dict[str, Any]] = {
    f"{group}: {name}": {
        **row,
        "code": rows.get("begin", "") + row["code"],
        "card": old_card if rows.get("is_old") else simulated_card,
    }
    for group, rows in GROUPS.items()
    for name, row in rows["programs"].items()
}


@pytest.mark.slow
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_client_sees(name: str, run_client: RunClient) -> None:
    """It prints these lines, says each of these words once on stderr, and ends so."""
    row = PROGRAMS[name]
    with row["card"](STORY._replace(count=row.get("count", 1))) as card:
        done = run_client(card, row["code"], **row.get("environ", {}))
    assert (done.returncode, done.stdout.strip("\n")) == (
        row.get("exit", 0),
        row.get("prints", "").strip("\n"),
    ), done.stderr
    assert [words for words in row.get("says", ()) if done.stderr.count(words) != 1] == []
