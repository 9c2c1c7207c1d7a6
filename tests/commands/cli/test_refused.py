"""What commands refuse before they do anything: the rows of refused.yaml."""

from __future__ import annotations

import gzip
import shlex
from pathlib import Path

import pytest
import yaml

from tests.commands.cli.commands import ROOT, run_commands

DATA = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))
SIMULATED = ROOT / "tests" / "commands" / "explain" / "simulated"
# `ps --watch` excludes it, which is a row; `init` prints none.
WITHOUT_JSON = {"init", "ps"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the YAML file, and a log whole and broken."""
    log = (SIMULATED / "logs" / "oom-eager.log").read_bytes()
    packed = gzip.compress(log, mtime=0)
    files = {
        **{name: text.encode() for name, text in DATA["files"].items()},
        "a.log": log,
        "cut.gz": packed[:-40],
        "torn.gz": packed[:600] + bytes(400) + packed[1000:],
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "pictures.png").mkdir()
    (tmp_path / "program.py").touch()  # which runs the commands
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("command", DATA["refused"])
def test_what_is_refused(command: str, folder: Path) -> None:
    """One error with a hint on stderr, and the same as one document where JSON is requested."""
    rows = DATA["refused"][command]
    lines = [shlex.split(row["words"]) for row in rows]
    environ = {"XDG_STATE_HOME": str(folder / "state")}
    before = sorted(folder.rglob("*"))
    texts = run_commands(folder, *([command, *words] for words in lines), environ=environ)
    for row, text in zip(rows, texts, strict=True):
        case = f"gpuconf {command} {row['words']}"
        assert text.code == row.get("code", 2), case
        assert "--json" in row["words"] or text.out == "", case
        assert text.err.startswith("gpuconf: error: "), case
        assert row["says"] in text.err, case
        assert row.get("hint", "") in text.err.partition("hint: ")[2], case
        assert "hint: " in text.err, case
        assert "Traceback" not in text.err, case
    commands = ([command, "--json", *words] for words in lines if command not in WITHOUT_JSON)
    for text, done in zip(texts, run_commands(folder, *commands, environ=environ), strict=False):
        error = done.document["error"]
        assert done.code == text.code, text.err
        assert error["message"] in text.err
        assert error["hint"] in text.err
    assert sorted(folder.rglob("*")) == before, "nothing is written"
