"""``gpuconf profiles``: list, show, check, schema."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.commands.cli.commands import run_commands
from tests.profile.test_search import SHIPPED


def test_list(tmp_path: Path) -> None:
    """A line for each profile, not folded where nobody looks, and the one active."""
    (tmp_path / ".gpuconf").mkdir()
    (tmp_path / ".gpuconf" / "notebook.yaml").write_text("description: Ours\ngpus: none\n")
    (tmp_path / ".gpuconf" / "broken.yaml").write_text("gpus: many\n")
    (tmp_path / "gpuconf.yaml").write_text("extends: notebook\n")
    text, found = run_commands(tmp_path, ["profiles", "list"], ["profiles", "list", "--json"])
    lines = text.out.splitlines()
    assert lines[0].split() == ["NAME", "FROM", "WHAT", "FOR"]
    rows = {tuple(line.split()[:2]): line for line in lines[1:]}
    assert rows[("notebook", "project")].endswith("  Ours")
    assert "(hidden by a closer one) Notebooks, which stay open" in rows[("notebook", "shipped")]
    assert "broken: " in rows[("broken", "project")]
    assert len(rows) == len(lines) - 1 == len(SHIPPED) + 3
    assert text.err.startswith("active here: ")
    assert "gpuconf.yaml, because it is the project's own file" in text.err
    entries = found.document["profiles"]
    assert {entry["name"] for entry in entries} == SHIPPED | {"project", "broken"}
    assert [entry["error"] is not None for entry in entries].count(True) == 1
    assert text.code == found.code == 0


def test_show(tmp_path: Path) -> None:
    """What is shown has all that was inherited, and is itself a profile with the same meaning."""
    text, found = run_commands(
        tmp_path, ["profiles", "show", "virtual-pair"], ["profiles", "show", "--json", "notebook"]
    )
    plain = yaml.safe_load(text.out)
    assert plain["memory"]["per_process_gpu_memory_fraction"] == 0.7
    assert plain["virtual_devices"] == ["50%", "50%"]
    assert text.out.startswith("# /")
    assert found.document["name"] == "notebook"
    assert found.document["profile"]["env"] == {"TF_CPP_MIN_LOG_LEVEL": "1"}
    (tmp_path / "copy.yaml").write_text(text.out)
    again, checked, unknown = run_commands(
        tmp_path,
        ["profiles", "show", "copy.yaml"],
        ["profiles", "check", "copy.yaml"],
        ["profiles", "show", "--json", "no-such"],
    )
    assert yaml.safe_load(again.out) == plain
    assert (checked.code, checked.out) == (0, "copy.yaml: ok\n")
    assert unknown.code == 2
    assert unknown.document["error"]["type"] == "ProfileNotFoundError"


def test_show_has_the_rules_of_leases(tmp_path: Path) -> None:
    """Context, lease and an endless wait are written as a profile has them."""
    (tmp_path / "mine.yaml").write_text(
        "extends: dedicated\nmemory: {lease: off, on_shortage: {wait: forever}}\n"
    )
    text, found = run_commands(
        tmp_path, ["profiles", "show", "mine.yaml"], ["profiles", "show", "--json", "mine.yaml"]
    )
    for memory in (yaml.safe_load(text.out)["memory"], found.document["profile"]["memory"]):
        assert memory["context"] == "1536MiB"
        assert memory["lease"] is False
        assert memory["on_shortage"] == {"wait": "forever"}


def test_check_tells_every_error(tmp_path: Path) -> None:
    """Exit code 2, and for each error file, line, column and a hint."""
    (tmp_path / "bad.yaml").write_text("memry: {}\nmemory:\n  keep_free: 1 gigabyte\n")
    text, found, shipped, missing = run_commands(
        tmp_path,
        ["profiles", "check", "bad.yaml"],
        ["profiles", "check", "--json", "bad.yaml"],
        ["profiles", "check", "--json", "dedicated"],
        ["profiles", "check", "gone.yaml"],
    )
    assert [done.code for done in (text, found, shipped, missing)] == [2, 2, 0, 2]
    assert text.out == ""
    assert text.err.count("gpuconf: error: ") == text.err.count("  hint: ") == 2
    assert "bad.yaml:1:1: " in text.err
    assert "bad.yaml:3:14: " in text.err
    assert [error["line"] for error in found.document["errors"]] == [1, 3]
    assert found.document["ok"] is False
    assert (shipped.document["ok"], shipped.document["errors"]) == (True, [])
    assert "gone.yaml" in missing.err


def test_no_action_lists(tmp_path: Path) -> None:
    """Bare `gpuconf profiles` is `gpuconf profiles list`, with --json too."""
    bare, listed, document = run_commands(
        tmp_path, ["profiles"], ["profiles", "list"], ["profiles", "--json"]
    )
    assert (bare.code, bare.out) == (0, listed.out)
    assert len(document.document["profiles"]) + 1 == len(bare.out.splitlines())


def test_schema(tmp_path: Path) -> None:
    """stdout is the schema alone, the same that is shipped."""
    (done,) = run_commands(tmp_path, ["profiles", "schema"])
    shipped = Path(__file__).parents[3] / "configs" / "profile.schema.json"
    assert json.loads(done.out) == json.loads(shipped.read_text())
    assert (done.code, done.err) == (0, "")


def test_check_says_what_a_found_file_may_not_set(tmp_path: Path) -> None:
    """The file is good where it is named, which a note limits; a name from the project is found."""
    (tmp_path / ".gpuconf").mkdir()
    for name in ("gpuconf.yaml", ".gpuconf/lab.yaml", "team.yaml"):
        (tmp_path / name).write_text("env:\n  XLA_FLAGS: --x\n")
    own, document, team, lab = run_commands(
        tmp_path,
        ["profiles", "check", "gpuconf.yaml"],
        ["profiles", "check", "--json", "gpuconf.yaml"],
        ["profiles", "check", "team.yaml"],
        ["profiles", "check", "lab"],
    )
    assert (own.code, own.out) == (0, "gpuconf.yaml: ok\n")
    assert "refuses env.XLA_FLAGS in line 2 until: gpuconf trust " in own.err
    assert [e["key"] for e in document.document["refused_if_found"]] == ["env.XLA_FLAGS"]
    assert document.document["ok"] is True
    assert (team.code, team.err) == (0, "")
    assert lab.code == 2
