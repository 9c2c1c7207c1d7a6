"""What tests of several folders need."""

from __future__ import annotations

import gc
from collections.abc import Generator

import hypothesis
import pytest

pytest_plugins = (
    "tests.programs.fixtures",
    "tests.programs.card_fixtures",
    "tests.programs.on_card",
    "tests.training.training_fixtures",
)

# No test is about seconds: a busy machine must not fail one.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# The files that take longest, with the waiting of their programs, in this order.
_LONGEST = (
    "test_demo_command",
    "test_computed_alike",
    "test_transcripts",
    "test_batching_on_backends",
    "test_frameworks_on_card",
    "test_in_tensorflow",
    "test_binding_interrupts",
    "test_on_simulated_card",
    "test_rehearsal_programs",
    "test_rehearsal_whole",
    "test_batching_limit",
    "test_probe_on_card",
    "test_rehearse_command",
    "test_notebooks",
    "test_jax_on_card",
    "test_batching_real_refusals",
    "test_live_torch_and_jax",
    "test_estimate_on_jax",
    "test_images_streams",
    "test_borders_on_card",
    "test_tensorflow_reconfigured",
    "test_simcard_tensorflow",
    "test_tensorflow_imports",
    "test_binding_matrix",
    "test_live_on_simulated_card",
    "test_fits_on_one_card",
)


def pytest_configure(config: pytest.Config) -> None:
    """Of several workers each takes the next file in our order; pytest-xdist's own is by count."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """While thousands of tests are collected, and afterwards among them, look for no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files and end with the quick ones, so that no worker idles long."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    rank = {stem: place for place, stem in enumerate(_LONGEST)}
    items.sort(key=lambda item: (item.path not in slow, rank.get(item.path.stem, len(rank))))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables that tests have recorded, which passed tests could not show otherwise."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, value in report.user_properties:
            if name == "table":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(str(value))
