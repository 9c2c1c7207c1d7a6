"""``gpuconf trust``: what a person sees, and that nothing is half done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.cli.commands import run_commands

pytestmark = pytest.mark.slow  # starts many programs

REFUSED = "env:\n  XLA_FLAGS: --x\n"


def test_a_file_is_trusted_until_it_changes(tmp_path: Path) -> None:
    """Refused, trusted, active; one byte more and it is refused again."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    file = tmp_path / "gpuconf.yaml"
    file.write_text(REFUSED)
    before, made, after, listed = run_commands(
        tmp_path,
        ["profiles", "show", "project"],
        ["trust", "gpuconf.yaml"],
        ["profiles", "show", "project"],
        ["trust", "--list"],
        environ=environ,
    )
    assert before.code == 2
    assert before.err.rstrip().endswith(f"gpuconf trust {file}")
    assert (made.code, made.err) == (0, "")
    assert made.out == f"trusted until it changes: {file}\n  it sets XLA_FLAGS\n"
    assert (after.code, "XLA_FLAGS: --x" in after.out) == (0, True)
    assert listed.out.splitlines()[1].split() == ["trusted", str(file)]
    file.write_text(REFUSED + "#")
    refused, changed, revoked, again, empty = run_commands(
        tmp_path,
        ["profiles", "show", "project"],
        ["trust", "--list"],
        ["trust", "--revoke", "gpuconf.yaml"],
        ["trust", "--revoke", "gpuconf.yaml"],
        ["trust", "--list"],
        environ=environ,
    )
    assert refused.code == 2
    assert "changed since, so not trusted" in changed.out
    assert (revoked.code, revoked.out) == (0, f"no longer trusted: {file}\n")
    assert (again.code, "hint: gpuconf trust --list" in again.err) == (1, True)
    assert (empty.code, empty.out, empty.err) == (0, "", "no file is trusted\n")


def test_files_that_it_extends_are_named(tmp_path: Path) -> None:
    """They need trust of their own; several are trusted by one command."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "base.yaml").write_text(REFUSED)
    (tmp_path / "gpuconf.yaml").write_text("extends: base.yaml\n")
    first, document, of_base, both, shown = run_commands(
        tmp_path,
        ["trust", "gpuconf.yaml"],
        ["trust", "--json", "gpuconf.yaml"],
        ["trust", "--json", "base.yaml"],
        ["trust", "gpuconf.yaml", "base.yaml"],
        ["profiles", "show", "project"],
        environ=environ,
    )
    assert "it sets only what needs no trust" in first.out
    assert f"needs separate trust: gpuconf trust {tmp_path}/base.yaml" in first.err
    (entry,), (base,) = (each.document["trusted"] for each in (document, of_base))
    assert entry == {
        "path": str(tmp_path / "gpuconf.yaml"),
        "variables": [],
        "problem": None,
        "untrusted": [str(tmp_path / "base.yaml")],
    }
    assert (base["path"], base["variables"]) == (str(tmp_path / "base.yaml"), ["XLA_FLAGS"])
    assert (both.code, both.err) == (0, "")
    assert shown.code == 0


def test_an_unwritable_folder(tmp_path: Path) -> None:
    """One error, exit code 1, for root too."""
    (tmp_path / "state").write_text("")
    (tmp_path / "gpuconf.yaml").write_text(REFUSED)
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    (done,) = run_commands(tmp_path, ["trust", "gpuconf.yaml"], environ=environ)
    assert (done.code, done.out) == (1, "")
    assert "cannot be written: Not a directory" in done.err
    assert "hint: ls -ld" in done.err


def test_a_missing_parent_is_said(tmp_path: Path) -> None:
    """The file itself is good and was read: it is trusted, and what is missing is reported."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    (tmp_path / "gpuconf.yaml").write_text(REFUSED + "extends: ./gone.yaml\n")
    (done,) = run_commands(tmp_path, ["trust", "gpuconf.yaml"], environ=environ)
    assert (done.code, "trusted until" in done.out) == (0, True)
    assert "what it extends cannot be used: " in done.err
