"""The steps of the workflows, as `make workflows` runs or lists them."""

from __future__ import annotations

import yaml

from tests.packaging.run_workflows import DONE_HERE, WORKFLOWS, jobs_of


def test_every_step_is_run_or_listed_with_a_reason() -> None:
    """Once for each value of a matrix; what runs is a known action, or needs nothing of GitHub."""
    for workflow in WORKFLOWS:
        jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
        expected = [
            step.get("run", step.get("uses", "").partition("@")[0])
            for job in jobs
            for _ in job.get("strategy", {}).get("matrix", {}).get("python", [""])
            for step in job.get("steps", [job])
        ]
        steps = [step for _, steps in jobs_of(workflow) for step in steps]
        assert len(steps) == len(expected) > 0, workflow.name
        for step, text in zip(steps, expected, strict=True):
            assert (step.command or step.action) == text or "${{" in text, workflow.name
            assert step.why_not or "${{" not in step.command
            assert step.why_not or step.command or step.action in DONE_HERE


def test_what_this_machine_cannot_do_has_its_reason() -> None:
    """Uploads and tokens are GitHub's; a matrix gives each job its Python."""
    jobs = {title: steps for workflow in WORKFLOWS for title, steps in jobs_of(workflow)}
    assert [each.why_not for each in jobs["release/publish"]] == ["", "left to GitHub"]
    assert "github.token" in jobs["release/announce"][-1].why_not
    assert jobs["test/wheel 3.12"][1].python == "3.12"
    assert jobs["release/build"][2] == ("make dist", "", "", ".", "")
