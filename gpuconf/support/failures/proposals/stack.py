"""How old a log's Python and TensorFlow are, and what gpuconf can do there."""

from __future__ import annotations

from gpuconf.support.failures.reading import LogFacts

_OLDEST_TENSORFLOW = (2, 15)
_OLDEST_PYTHON = (3, 10)
_PIP_BRINGS_CUDA = (2, 14)


def code_of(facts: LogFacts) -> str:
    """The user's line of code, or nothing."""
    return (facts.user_code.code if facts.user_code is not None else None) or ""


def known_version(facts: LogFacts, package: str) -> tuple[int, int] | None:
    """The first two numbers of a version in the log; None if there is none."""
    parts = facts.versions.get(package, "").split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[1].isdigit() else None


def tensorflow_version(facts: LogFacts) -> tuple[int, int] | None:
    """TensorFlow's version in the log; None if there is none."""
    return known_version(facts, "tensorflow")


def is_version_1(facts: LogFacts) -> bool:
    """Whether the log comes from TensorFlow 1, which has sessions but no tf.config."""
    return facts.versions.get("tensorflow", "").startswith(("0.", "1."))


def is_old_stack(facts: LogFacts) -> bool:
    """Whether the log's Python or TensorFlow is too old for gpuconf in the script."""
    tensorflow, python = tensorflow_version(facts), known_version(facts, "python")
    if python is not None and python < _OLDEST_PYTHON:
        return True
    if tensorflow is None:
        return facts.shows_old_tensorflow
    return tensorflow < _OLDEST_TENSORFLOW


def needs_run(facts: LogFacts) -> bool:
    """Whether the script's Python or TensorFlow is too old for `import gpuconf.auto`.

    gpuconf runs on Linux.  A log from Windows gets a profile anyway, for use in WSL.
    """
    of_tensorflow = facts.framework in (None, "tensorflow")
    return of_tensorflow and is_old_stack(facts) and not facts.on_windows


def gpuconf_serves(facts: LogFacts) -> bool:
    """Whether gpuconf's calls would run in this environment, and are not themselves what failed."""
    if facts.framework in ("torch", "jax") or facts.on_windows or "gpuconf." in code_of(facts):
        return False
    return not is_old_stack(facts)


def is_before_policies(facts: LogFacts) -> bool:
    """Whether this TensorFlow lacks Keras's mixed-precision policies, as far as the log shows."""
    version = tensorflow_version(facts)
    return version < (2, 4) if version is not None else is_old_stack(facts)


def is_old_build(facts: LogFacts) -> bool:
    """Whether pip does not install CUDA for this TensorFlow: before 2.14, or its paths look old."""
    if facts.framework in ("torch", "jax"):
        return False
    version = tensorflow_version(facts)
    return version < _PIP_BRINGS_CUDA if version is not None else is_old_stack(facts)


def is_torch_since_2_1(facts: LogFacts) -> bool:
    """Whether PyTorch is this new, judging by its version or its message, which changed in 2.1."""
    version = known_version(facts, "torch")
    if version is not None:
        return version >= (2, 1)
    return "torch_reserved" not in facts.details and "torch_cached" not in facts.details
