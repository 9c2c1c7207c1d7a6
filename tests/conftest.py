"""What tests of several folders need."""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator

import hypothesis
import pytest

pytest_plugins = (
    "tests.programs.fixtures",
    "tests.programs.card_fixtures",
    "tests.programs.on_card",
    "tests.training.training_fixtures",
)

# No test is about seconds: a busy machine must not fail one.  The gate tries the same examples each
# time; `make nightly` tries more, and others each night.
hypothesis.settings.register_profile("gate", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.register_profile("nightly", deadline=None, max_examples=300)
hypothesis.settings.load_profile("gate")

_SECONDS = "gpuconf/seconds"  # of each test when it ran last, in pytest's cache


def pytest_configure(config: pytest.Config) -> None:
    """Of several workers each takes the next file in our order; pytest-xdist's own is by count.

    `nohup`, and `&` in a script, start pytest with signals ignored, and so would be all that tests
    start.  What has a handler here begins with the default there.
    """
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(autouse=True)
def variables_as_before() -> Iterator[None]:
    """What a plan in the test's own process exports is not for the tests after it."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """While thousands of tests are collected, and afterwards among them, look for no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that took longest last time, so that no worker idles long at the end.

    A slow test that is new here counts as five seconds, or as it says: ``slow(seconds=60)``.
    Tests that need root are skipped without.
    """
    cache = getattr(config, "cache", None)  # absent where its plugin is off
    known: dict[str, float] = cache.get(_SECONDS, {}) if cache else {}
    seconds: defaultdict[str, float] = defaultdict(float)
    for item in items:
        slow = item.get_closest_marker("slow")
        default = 0 if slow is None else slow.kwargs.get("seconds", 5)
        seconds[item.location[0]] += known.get(item.nodeid, default)
        if item.get_closest_marker("needs_root") is not None and os.getuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))
    items.sort(key=lambda item: -seconds[item.location[0]])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the tables that tests have recorded, which passed tests could not show otherwise."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    for report in reports:
        for name, value in report.user_properties:
            if name == "table":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(str(value))
    cache = getattr(config, "cache", None)
    if cache:
        seconds = {each.nodeid: round(each.duration, 1) for each in reports if each.when == "call"}
        cache.set(_SECONDS, cache.get(_SECONDS, {}) | seconds)
