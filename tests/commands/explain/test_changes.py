"""The files of changes: every name exists, every change is reached, every fact is used or shown."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import MIB
from gpuconf.support.failures.causes import CAUSES
from gpuconf.support.failures.facts.card import LoggedCard
from gpuconf.support.failures.facts.details import Details
from gpuconf.support.failures.facts.dump import Dump
from gpuconf.support.failures.facts.program import IDLE_GPU, known_signs
from gpuconf.support.failures.facts.tensor import MemoryRequest, Tensor
from gpuconf.support.failures.facts.user_code import Frame
from gpuconf.support.failures.proposals import engine
from gpuconf.support.failures.proposals.figures import FIGURES
from gpuconf.support.failures.proposals.questions import QUESTIONS, VALUES
from gpuconf.support.failures.reading import LogFacts
from gpuconf.support.failures.xids import known_xids

SIGNS = (*known_signs().anywhere, IDLE_GPU, *known_signs().nearby)
TEXTS = ("title", "reason", "paste")
OF_XIDS = {"xid", "xid_means", "xid_remedy", "xid_command"}
# What is printed, or decides the cause or its severity, and calls for no change of its own.
ONLY_SHOWN = {"event", "library_driver", "matrices", "operation"}
CODES = (
    None, "model.fit(x, y)", "model.evaluate(x, y)", "model.predict(x)", "y = compute(x)",
    "session.run(out, feed_dict={x: y})", "np.array(images) / 255", "model.save('x')",
    "keras.callbacks.ModelCheckpoint('x')", "tf.config.set_logical_device_configuration(gpu, [])",
)  # fmt: skip
STATUSES = (
    "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_EXECUTION_FAILED", "CUDA_ERROR_UNKNOWN",
    "CUDA_ERROR_SYSTEM_NOT_READY",
)  # fmt: skip
EXCEPTIONS = (
    None, "OSError: Disk quota exceeded", "RuntimeError: CUDA error: out of memory",
    "slurmstepd: error", "InternalError: Dst tensor", "ValueError: no room for the cache blocks",
)  # fmt: skip
VERSIONS: tuple[dict[str, str], ...] = (
    {}, {"tensorflow": "2.21.0"}, {"tensorflow": "1.15.0"}, {"tensorflow": "2.13.0"},
    {"torch": "2.3.0"}, {"torch": "1.12.0"},
)  # fmt: skip


def items(found: Any = None) -> Iterator[dict[str, Any]]:
    """Every change, list's item and group of all files."""
    found = list(engine.table().values()) if found is None else found
    if isinstance(found, list):
        for each in found:
            yield from items(each)
    elif isinstance(found, dict):
        yield found
        for key in ("first", "changes", "otherwise"):
            yield from items(found.get(key, []))


def conditions() -> set[str]:
    """All conditions, each without ``not``."""
    found = {
        each for item in items() for joined in item.get("when", ()) for each in joined.split(" or ")
    }
    return {each.removeprefix("not ") for each in found}


def fields() -> set[tuple[str, str]]:
    """What the texts insert: the kind, ``detail`` or nothing, and the name."""
    texts = (item[key] for item in items() for key in TEXTS if key in item)
    return {(kind, name) for text in texts for kind, name in engine.FIELD.findall(text)}


def test_every_name_exists_and_is_used() -> None:
    """A misspelled question would be an error only in front of a user."""
    asked = {each.partition(" ")[0] for each in conditions()}
    assert asked == set(QUESTIONS) | set(VALUES)
    assert {name for kind, name in fields() if not kind} == set(FIGURES) | OF_XIDS
    used = {item["use"] for item in items() if "use" in item}
    assert used <= set(engine.table())
    assert set(engine.table()) - used <= set(CAUSES)


def test_values_are_facts() -> None:
    """``detail X`` and ``sign X`` name facts that a log can have; the others are only shown."""
    named = {kind: set[str]() for kind in VALUES}
    for each in conditions():
        kind, _, value = each.partition(" ")
        if value:
            named[kind].add(value)
    named["detail"] |= {name for kind, name in fields() if kind}
    details, known = set(Details.__annotations__), set(SIGNS)
    assert named["detail"] <= details
    assert named["sign"] <= known
    folder = Path(engine.__file__).parent
    code = "\n".join(file.read_text("utf-8") for file in folder.glob("*.py"))
    in_code = set(re.findall(r'"([\w-]+)"', code))
    assert details - named["detail"] - in_code == ONLY_SHOWN
    assert known - named["sign"] - in_code == set()


def made_facts(chance: random.Random) -> LogFacts:
    """Facts of some log."""
    sizes = [None, 1, 3, 20, 100, 700, 2048, 3000, 9000, 15_000, 80_000, 400_000]

    def size() -> int | None:
        mib = chance.choice(sizes)
        return None if mib is None else mib * MIB

    details: dict[str, Any] = {
        name: "8.1.0" for name in Details.__annotations__ if chance.random() < 0.1
    }
    for name in ("torch_allocated", "torch_reserved", "torch_process", "program_total"):
        if (mib := chance.choice(sizes)) and chance.random() < 0.4:
            details[name] = f"{mib} MiB"
    lists: dict[str, list[Any]] = {
        "missing_libraries": ["libcudart.so.11.0", "libcudnn.so.8", "libcuda.so.1"],
        "xid": [*known_xids(), 9999],
    }
    for name, values in lists.items():
        if details.pop(name, None):
            details[name] = chance.sample(values, 2)
    if chance.random() < 0.5:
        details["status"] = chance.choice(STATUSES)
    if "device_refused" in details:
        details["device_refused"] = chance.choice(["busy or unavailable", "invalid device ordinal"])
    if "vgpu_limit" in details:
        details["vgpu_limit"] = "8192"
    if "free_for_handle" in details:
        details["free_for_handle"] = chance.choice(["80000000 bytes", "4000000000 bytes"])
    if "server_share" in details:
        details["server_share"] = chance.choice(["1.5/24.0", "20.5/24.0"])
    if "still_free" in details:
        details["still_free"] = "3180 MiB"
    if "torch_hint" in details:
        details["torch_hint"] = "max_split_size_mb"
    kinds = ("temporary files", "data set", "events", "packages", "cache", "checkpoint")
    if chance.random() < 0.8:
        details["unwritten"] = chance.choice(kinds)
    shape = tuple(chance.choice([1, 3, 64, 224, 5000, 50_000]) for _ in range(chance.randint(1, 4)))
    dtype = chance.choice([None, "float32", "float64"])
    tensor = Tensor(shape, dtype, (size() or MIB), "") if chance.random() < 0.5 else None
    node = chance.choice(
        [None, "dense/kernel/Adam", "conv2d/Relu", "random_uniform", "crop_and_resize"]
    )
    request = MemoryRequest(
        tensor=tensor, size_bytes=size(), node=node, device=chance.choice(["GPU:0", "CPU:0"])
    )
    total = chance.choice([None, 11_264 * MIB])
    free = int(total * chance.random()) if total and chance.random() < 0.7 else None
    capability = chance.choice([None, "3.5", "8.6"])
    card = LoggedCard(None, total, free, size(), capability)
    dump = Dump(line=1, limit_bytes=size(), in_use_bytes=size(), requested_bytes=size())
    code = Frame(5, chance.choice(["train.py", "Cell In[3]"]), 3, None, chance.choice(CODES))
    return LogFacts(
        request=chance.choice([request, request, MemoryRequest()]),
        card=chance.choice([None, card]),
        dump=chance.choice([None, dump]),
        batch_size=chance.choice([None, None, 1, 64]),
        user_code=chance.choice([None, code]),
        exception=chance.choice(EXCEPTIONS),
        framework=chance.choice([None, "tensorflow", "tensorflow", "torch", "jax"]),
        on_windows=chance.random() < 0.1,
        signs=tuple(each for each in SIGNS if chance.random() < 0.1),
        versions=chance.choice(VERSIONS),
        details=details,  # type: ignore[arg-type]
    )


def changes() -> Iterator[dict[str, str]]:
    """Every change, with the texts that an item sets in place of those of the change it uses."""
    for item in items():
        named = engine.table().get(item.get("use", ""), {})
        if "use" in item and not isinstance(named, list):
            yield {**named, **item}
        elif "title" in item:
            yield item


def pattern(change: dict[str, str]) -> re.Pattern[str]:
    """The title and reason of a change, with anything in place of its figures."""
    text = f"{change['title']}\n{change.get('reason', '')}"
    return re.compile(".*".join(map(re.escape, re.split(r"\{[a-z_:]+\}", text))), re.DOTALL)


@pytest.mark.slow
def test_every_change_is_reached() -> None:
    """Some facts call for each of them, and none that were tried raises an error."""
    chance = random.Random(1)
    causes = sorted(set(CAUSES) & set(engine.table()))
    reached: set[str] = set()
    for _ in range(6000):
        facts = made_facts(chance)
        for cause in causes:
            found = engine.changes_for(cause, facts)
            reached |= {f"{change.title}\n{change.reason}" for change in found}
    patterns = {pattern(change) for change in changes() if "title" in change}
    assert len(patterns) > 150
    assert [each.pattern for each in patterns if not any(map(each.match, reached))] == []
