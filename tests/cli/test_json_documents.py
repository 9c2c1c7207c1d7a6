"""Every form of ``--json`` of the commands about profiles: as the published schemas say."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from tests.cli.commands import run_commands, schema

BAD = "extends: nothing\nmemory:\n  keep_free: x\n"
TRUSTED = "env:\n  XLA_FLAGS: --x\n"
LACKING = "extends: ./trusted.yaml\nenv:\n  XLA_FLAGS: --y\n"
# The words, the exit code, and the keys of the document besides schema_version.
CASES: list[tuple[list[str], int, set[str]]] = [
    (["plan"], 0, {"profile", "source", "gpus", "environment", "conflicts", "notes"}),
    (["plan", "bad.yaml"], 2, {"error"}),
    (["plan", "--profile", "bad.yaml"], 2, {"error"}),
    (["profiles", "list"], 0, {"profiles"}),
    (["profiles", "show", "virtual-pair"], 0, {"name", "source", "profile"}),
    (["profiles", "show", "nothing"], 2, {"error"}),
    (["profiles", "check", "bad.yaml"], 2, {"file", "ok", "errors", "refused_if_found"}),
    (["profiles", "check", "./gpuconf.yaml"], 0, {"file", "ok", "errors", "refused_if_found"}),
    (["trust", "lacking.yaml"], 0, {"trusted"}),
    (["trust", "--list"], 0, {"trusted"}),
    (["trust", "--revoke", "lacking.yaml"], 0, {"revoked"}),
    (["trust", "--revoke", "lacking.yaml"], 1, {"error"}),
    (["doctor", "--list-checks"], 0, {"checks"}),
    (["explain", "nothing.log"], 2, {"error"}),
    (["estimate", "nothing.keras"], 2, {"error"}),
    (["rehearse"], 2, {"error"}),
]


def test_every_form_is_as_its_schema_says(tmp_path: Path) -> None:
    """The codes and the keys that programs rely on; variables that stay as they are set too."""
    for name, text in (("bad", BAD), ("trusted", TRUSTED), ("lacking", LACKING)):
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "gpuconf.yaml").write_text(TRUSTED)
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "TF_FORCE_GPU_ALLOW_GROWTH": "maybe"}
    environ["GPUCONF_PROFILE"] = "shared-desktop"
    commands = [[*words, "--json"] for words, _, _ in CASES]
    results = run_commands(tmp_path, *commands, environ=environ)
    for done, (words, code, keys) in zip(results, CASES, strict=True):
        assert done.code == code, words
        assert set(done.document) == {"schema_version", *keys}, words


@pytest.mark.parametrize(
    ("command", "document"),
    [
        ("plan", {"schema_version": 1}),
        ("profiles", {"schema_version": 1, "profiles": [{"name": "a"}]}),
        ("trust", {"schema_version": 1, "trusted": [{"path": "a", "state": "perhaps"}]}),
        ("trust", {"schema_version": 2, "revoked": "a"}),
        ("trust", {"schema_version": 1, "revoked": "a", "more": 1}),
        ("rehearse", {"schema_version": 1, "error": {"type": "A"}}),
    ],
)
def test_the_check_can_fail(command: str, document: dict[str, object]) -> None:
    """A key that is missing, one that is new, and a value that is not a choice are refused."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema(command))
