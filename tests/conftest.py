"""What tests of several folders need; its place makes ``processes`` importable."""

from __future__ import annotations

import hypothesis
import pytest
import standin
from processes import Nvml

# No test is about seconds: a busy machine must not fail one.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Nvml:
    """The variables with which a new process sees the machine of a scenario."""
    if standin.compiler() is None:
        pytest.skip("no C compiler for the stand-in of NVIDIA's library")
    folder = tmp_path_factory.mktemp("standin")
    return lambda machine: standin.environment(machine, folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables that tests have recorded, which passed tests could not show otherwise."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, value in report.user_properties:
            if name == "table":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(str(value))
