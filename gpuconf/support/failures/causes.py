"""The causes of failures, their severity, and which cause explains which: ``causes.yaml``."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple

import yaml

from gpuconf.basics.json_shape import FieldRule
from gpuconf.errors import GpuconfError

Severity = Literal["failure", "silent-cpu-fallback", "warning-only", "not-gpu"]


SEVERITIES: dict[Severity, str] = {
    "failure": "the run failed",
    "silent-cpu-fallback": "the run continues on the CPU",
    "warning-only": "the run continued",
    "not-gpu": "not a GPU problem",
}


class Cause(NamedTuple):
    """A cause: its human-readable title, and the causes that are only its consequences.

    ``severity`` applies if this cause ended the run; ``about`` is "memory" if the cause concerns
    GPU memory.
    """

    title: str
    explains: frozenset[str] = frozenset()
    severity: Severity = "failure"
    about: str | None = None


NOT_GPU = "not-a-gpu-problem"
# Prefix of the command that shows a cause's page.  Change it here once the site has an address.
PAGE_OF_CAUSE = "gpuconf docs causes/"


def _read() -> dict[str, Cause]:
    """The table; raises GpuconfError if a bundle does not include it."""
    file = files(__package__).joinpath("causes.yaml")
    if not file.is_file():
        raise GpuconfError(
            f"this installation of gpuconf lacks its data files, such as {file}",
            hint="pip install --force-reinstall gpuconf  # in a bundle, collect its data files",
        )
    entries: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text("utf-8"))
    return {
        id_: Cause(**{**entry, "explains": frozenset(entry.get("explains", ()))})
        for id_, entry in entries.items()
    }


CAUSES = _read()
# Causes that are about GPU memory.
OF_GPU_MEMORY = frozenset(id_ for id_, cause in CAUSES.items() if cause.about == "memory")
CauseId = Annotated[str, FieldRule(enum=tuple(CAUSES))]
