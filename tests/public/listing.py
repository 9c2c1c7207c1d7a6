"""The list of public scripts, as `scripts.yaml` holds it."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import yaml

HERE = pathlib.Path(__file__).parent
SOURCES = pathlib.Path.home() / ".cache" / "gpuconf-public"
"""Where the scripts are fetched to and the results are kept, unless another folder is named."""


@dataclasses.dataclass(frozen=True, eq=False)
class Script:
    """One public script or notebook, and how it is run here."""

    name: str
    repository: str
    commit: str
    path: str
    shape: str
    """How it trains, for the table."""
    kind: str = "script"
    """`script`, `notebook`, or `script of a notebook`."""
    beside: tuple[str, ...] = ()
    """Further files of the repository that it imports."""
    examples: int = 320
    test_examples: int | None = None
    names: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Values for assignments and keyword arguments of these names: fewer epochs, fewer steps."""
    numbers: dict[int, int] = dataclasses.field(default_factory=dict)
    """Other whole numbers in place of these: sizes of the real data."""
    strings: dict[str, str] = dataclasses.field(default_factory=dict)
    files: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    """Files that the script reads, by name: their kind and size."""
    arguments: tuple[str, ...] = ()
    tf1: bool = False
    """Whether `import tensorflow as tf` becomes compat.v1 with `disable_v2_behavior()`."""

    @property
    def folder(self) -> str:
        return f"{self.repository.replace('/', '+')}/{self.commit}"

    @property
    def is_notebook(self) -> bool:
        return self.kind == "notebook"


def read(file: pathlib.Path = HERE / "scripts.yaml") -> list[Script]:
    """All scripts, in the list's order. Unknown keys are errors."""
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [
        Script(
            **{
                **entry,
                "beside": tuple(entry.get("beside", ())),
                "arguments": tuple(entry.get("arguments", ())),
            }
        )
        for entry in document["scripts"]
    ]


def table() -> str:
    """The list as README.md shows it."""
    lines = ["| name | how it trains | repository and commit | file |", "|---|---|---|---|"]
    for script in read():
        kind = "" if script.kind == "script" else f"; {script.kind}"
        lines.append(
            f"| {script.name} | {script.shape}{kind} "
            f"| {script.repository} `{script.commit[:12]}` | {script.path} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
