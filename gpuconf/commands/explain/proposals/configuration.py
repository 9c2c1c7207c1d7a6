"""Settings that must be equal on all GPUs, or set before the first tensor."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.wording import (
    FIRST_LINE,
    UNEDITED,
    by_run,
    needs_run,
    profile,
)
from gpuconf.support.failures.reading import LogFacts

GROWTH = (
    "for gpu in tf.config.list_physical_devices('GPU'):\n"
    "    tf.config.experimental.set_memory_growth(gpu, True)"
)
_LIMIT = (
    "for gpu in tf.config.list_physical_devices('GPU'):\n"
    "    tf.config.set_logical_device_configuration(\n"
    "        gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4096)])"
)

_MAKE_DEVICES = (
    "any tensor, variable, Dropout layer, optimizer, data set, list_logical_devices or "
    "MirroredStrategy makes the devices, and then the setting is fixed"
)


def for_growth(facts: LogFacts) -> Iterator[Proposal]:
    """The same setting on every visible GPU, or only one visible GPU."""
    yield Proposal(
        "set growth on every GPU",
        "TensorFlow takes one value for all visible GPUs, and says so only when it starts",
        "code",
        GROWTH,
    )
    yield profile(
        facts,
        "or show the process one GPU, the one with the most free memory",
        "gpuconf sets growth and the limit for it before TensorFlow starts",
        "extends: shared-desktop",
        "gpus: {pick: most-free, count: 1}",
        options="--set gpus.pick=most-free --set gpus.count=1",
    )


def for_late(facts: LogFacts) -> Iterator[Proposal]:
    """Make the call first, before anything creates devices."""
    frame = facts.user_code
    where = f" ({frame.file}:{frame.line})" if frame is not None and frame.line else ""
    title = "let gpuconf set it before TensorFlow is imported"
    move = Proposal(
        f"{{}}move the call{where} to directly below `import tensorflow`",
        "nothing before it may make a tensor; in a notebook, restart the kernel first",
        "code",
        f"import tensorflow as tf\n{_LIMIT if _is_limit(facts) else GROWTH}",
    )
    if needs_run(facts) and _in_a_notebook(facts):  # `gpuconf run` does not start notebooks
        yield move._replace(title=move.title.format("restart the kernel, and "))
        return
    if needs_run(facts):
        yield by_run(title, _MAKE_DEVICES)
    else:
        yield Proposal(title, f"{_MAKE_DEVICES}; {UNEDITED}", "code", FIRST_LINE)
    yield move._replace(title=move.title.format("or "))
    yield Proposal(
        "see which line of the script makes the devices",
        "doctor reads the script without running it",
        "command",
        "gpuconf doctor --script train.py",
    )


def _in_a_notebook(facts: LogFacts) -> bool:
    file = facts.user_code.file if facts.user_code is not None else ""
    return "ipython-input" in file or "ipykernel" in file or file.startswith(("Cell", "In"))


def _is_limit(facts: LogFacts) -> bool:
    """Whether the call that came too late sets a limit, not growth."""
    code = (facts.user_code.code if facts.user_code is not None else None) or ""
    return "logical_device" in code or "virtual_device" in code
