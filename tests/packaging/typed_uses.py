"""What users write, with the types that they rely on.  Checked by mypy --strict, never run.

`make lint` checks it against the checkout, `make wheel` against the installed wheel.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

import gpuconf
from gpuconf.callbacks import MemoryUsage
from gpuconf.images import stream


def configuring() -> None:
    """The first line, with arguments, and what it did."""
    assert_type(gpuconf.configure(), gpuconf.Activation)
    made = gpuconf.configure("half-card", memory={"memory_limit": "4GiB"}, gpus=[0])
    assert_type(made.profile, str | None)
    assert_type((made.source, made.disabled), tuple[str | None, str | None])
    assert_type(made.plan, gpuconf.Plan | None)
    assert_type(made.environment, dict[str, str])
    assert_type(made.as_dict(), dict[str, object])
    print(*made.settings)
    assert_type(gpuconf.activation(), gpuconf.Activation | None)
    assert_type(gpuconf.__version__, str)


def planning() -> None:
    """A plan and its figures."""
    plan = gpuconf.plan("half-card")
    assert_type(plan, gpuconf.Plan)
    assert_type(plan.notes, tuple[str, ...])
    for each in plan.gpus:
        assert_type(each.limit_bytes, int | None)
        assert_type(each.arithmetic, tuple[str, ...])
    assert_type(gpuconf.load_profile("half-card"), gpuconf.Profile)
    assert_type(gpuconf.load_profile(overrides={"gpus": [0]}).name, str)


def memory() -> None:
    """What a process returns, and what it can still allocate."""
    assert_type(gpuconf.release().gpus[0].after_bytes, int)
    assert_type(gpuconf.max_memory(), dict[int | str, int])


def explaining(error: Exception, log: bytes) -> None:
    """An exception, a text, or the bytes of a file."""
    for given in (error, "OOM when allocating tensor", log):
        diagnosis = gpuconf.explain(given)
        assert_type(diagnosis, gpuconf.Diagnosis)
        words: tuple[str, str, str] = (diagnosis.cause, diagnosis.severity, diagnosis.title)
        print(words, diagnosis.as_dict())


def estimating(model: Any) -> None:
    """A model's memory."""
    estimate = gpuconf.estimate(model, 32, limit="6GiB")
    assert_type(estimate, gpuconf.MemoryEstimate)
    assert_type(estimate.peak_bytes + estimate.resident_bytes + estimate.batch_size, int)
    assert_type(estimate.limit_bytes, int | None)
    assert_type(estimate.fits, bool | None)
    assert_type(estimate.largest_batch, int | None)


@gpuconf.oom_safe(batch_size=256)
def embed(pictures: list[int], scale: float = 1.0) -> list[float]:
    """A decorated function keeps its own type."""
    return [scale * each for each in pictures]


@gpuconf.isolated(profile="half-card", timeout_s=600, ahead=True)
def train(units: int, rate: float = 0.1) -> float:
    """With options, and below without."""
    return units * rate


def isolating() -> None:
    """A decorated function keeps its own type."""
    assert_type(train(64, rate=0.01), float)
    assert_type(gpuconf.isolated(len)("ab"), int)


def batching(model: Any, x: Any) -> None:
    """Batches that survive, with a callback."""
    assert_type(embed([1, 2], scale=0.5), list[float])
    gpuconf.fit(model, x, x, batch_size=1024, callbacks=[MemoryUsage()])
    gpuconf.evaluate(model, x, x)
    gpuconf.predict(model, x)


def streaming() -> None:
    """Images from their paths."""
    stream("photos/", size=(224, 224), batch_size=32, shuffle=True, host_limit="2GiB")


def failing() -> None:
    """Every error is a GpuconfError with a hint, and of the builtin kind that it resembles."""
    try:
        gpuconf.configure("no-such-profile")
    except gpuconf.ProfileError as error:
        assert_type((error.file, error.key), tuple[str | None, str | None])
        assert_type((error.line, error.column), tuple[int | None, int | None])
    except gpuconf.GpuconfError as error:
        assert_type(error.message, str)
        assert_type(error.hint, str | None)
    builtin: list[type[Exception]] = [gpuconf.ProfileError, gpuconf.TooLateError]
    value_error: type[ValueError] = gpuconf.ProfileNotFoundError
    import_error: type[ImportError] = gpuconf.MissingDependencyError
    print(builtin, value_error, import_error)
