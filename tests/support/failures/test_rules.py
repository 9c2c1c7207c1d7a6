"""The rules: well formed, each met by its own words, and by lines as programs write them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import gpuconf
import gpuconf.support.failures.rules
from gpuconf.commands.explain import explain
from gpuconf.support.failures.causes import CAUSES, NOT_GPU
from gpuconf.support.failures.log.shapes import says
from gpuconf.support.failures.log.watchers import LogLine
from gpuconf.support.failures.matches import RuleMatches
from gpuconf.support.failures.rules import all_rules, read_rules
from tests.programs.processes import finding, run_python

FOLDER = Path(__file__).parent
HEALTHY_LINES = yaml.safe_load((FOLDER / "healthy_lines.yaml").read_text(encoding="utf-8"))
LINES = yaml.safe_load((FOLDER / "rule_lines.yaml").read_text(encoding="utf-8"))
RULES = {rule.id: rule for rule in all_rules()}


def met_by(text: str) -> set[str]:
    """The ids of the rules that a line meets."""
    matches = RuleMatches(all_rules())
    matches.see(LogLine(1, text))
    return set(matches.found)


def test_ids_are_unique() -> None:
    """Two rules of one id would be counted as one."""
    assert len(RULES) == len(all_rules())


def test_every_cause_has_a_rule() -> None:
    """No cause can never be found; those that figures alone tell are of no rule's error."""
    named = {rule.cause for rule in RULES.values() if rule.cause is not None}
    of_figures = {"fragmentation"}  # see refinement.py
    assert named == set(CAUSES) - {NOT_GPU} - of_figures
    assert {name for cause in CAUSES.values() for name in cause.explains} <= set(CAUSES)


def test_a_rule_is_met_by_its_own_words() -> None:
    """Each of its phrases, alone on a line, in any case: unless it wants more than words."""
    with_words = [rule for rule in RULES.values() if rule.pattern is None]
    others = set(RULES) - {rule.id for rule in with_words}
    assert others <= LINES["met"].keys(), "a rule with a pattern needs lines in rule_lines.yaml"
    phrases = [(rule.id, phrase) for rule in with_words for phrase in rule.says]
    assert len(phrases) >= 200
    for name, phrase in phrases:
        assert name in met_by(phrase), phrase
        assert name in met_by(f"2023-01-01: E tensorflow/x.cc:1] {phrase.upper()} (17)."), phrase


def test_lines_of_rules() -> None:
    """Lines as programs write them, and lines that share words with a rule and mean another."""
    for rule, lines in LINES["met"].items():
        assert [line for line in lines if rule not in met_by(line)] == [], rule
    for rule, lines in LINES["not met"].items():
        assert [line for line in lines if rule in met_by(line)] == [], rule
    assert set(LINES["met"]) | set(LINES["not met"]) <= set(RULES)


def test_healthy_lines_meet_nothing_bad() -> None:
    """No error, no ladder, no fall back to the CPU; not a failure, alone or above training."""
    epochs = "\n".join(f"Epoch {n}/9\n{n}/9 [====] - loss: 0.{n}" for n in range(1, 9))
    for lines in HEALTHY_LINES.values():
        for line in lines:
            bad = [RULES[name] for name in met_by(line)]
            assert not [each.id for each in bad if each.level in ("error", "ladder", "fallback")], (
                line
            )
            assert explain(line).severity in ("not-gpu", "warning-only"), line
        severity = explain("\n".join([*lines, epochs])).severity
        assert severity in ("not-gpu", "warning-only"), lines
    assert sum(map(len, HEALTHY_LINES.values())) > 60


def test_no_phrase_is_said_twice() -> None:
    """A phrase that has another of its rule within it adds nothing."""
    twice = [
        (rule.id, longer)
        for rule in RULES.values()
        for longer in rule.phrases
        if any(says(longer, other) for other in rule.phrases if other != longer)
    ]
    assert not twice


def broken() -> Iterator[tuple[str, str]]:
    """Changes to a good rule, and what is said of each."""
    yield "level: error", "level: worse"
    yield "cause: late-config", "cause: too-late"
    yield "cause: late-config", "severity: failure"
    yield "says: [too late]", "says: ['42']"
    yield "says: [too late]", "says: ['error 42']"
    yield "says: [too late]", "says: [too late], unless: [Late]"
    yield "level: error", "level: harmless"
    yield "level: error", "level: error, caught: worse"


@pytest.mark.parametrize(("good", "bad"), list(broken()))
def test_a_broken_rule_is_refused(good: str, bad: str) -> None:
    """With the file and the rule's id, so that a contributor finds it."""
    text = "rules:\n- {id: mine, cause: late-config, level: error, says: [too late], means: x}\n"
    assert [rule.id for rule in read_rules(text, "mine.yaml")] == ["mine"]
    with pytest.raises(ValueError, match=r"mine\.yaml: rule 'mine'"):
        list(read_rules(text.replace(good, bad), "mine.yaml"))


def test_rule_files_are_plain_lists() -> None:
    """Each file starts with a comment that says what family it holds."""
    files = sorted(Path(gpuconf.support.failures.rules.__file__).parent.glob("*.yaml"))
    assert len(files) > 5
    for file in files:
        text = file.read_text("utf-8")
        assert text.startswith("# "), file.name
        assert list(yaml.safe_load(text)) == ["rules"], file.name


def test_an_installation_without_rules_is_an_error(tmp_path: Path) -> None:
    """A bundle that left the data files out must not call every log harmless."""
    package = Path(gpuconf.__file__).parent
    without = shutil.ignore_patterns("*.yaml", "native", "__pycache__")
    shutil.copytree(package, tmp_path / "bundle" / "gpuconf", ignore=without)
    program = """
        import gpuconf
        from gpuconf.errors import GpuconfError
        try:
            gpuconf.explain("an error")
        except GpuconfError as error:
            print(error, error.hint)
    """
    out = run_python(program, tmp_path, environ=finding(tmp_path / "bundle"))
    assert "lacks its data files" in out
    assert "pip install" in out
