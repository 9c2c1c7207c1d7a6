"""For each check scripts that it must speak of, and scripts on which it must be silent."""

from __future__ import annotations

from textwrap import dedent
from typing import NamedTuple

from tests.doctor.source.image_cases import IMAGES
from tests.doctor.source.order_cases import ORDER
from tests.doctor.source.refused_cases import REFUSED
from tests.doctor.source.setting_cases import SETTINGS
from tests.doctor.source.worker_cases import WORKERS


class Case(NamedTuple):
    """A script, the check it is for, and the lines that the check names; none for silence."""

    name: str
    id: str
    script: str
    lines: tuple[int, ...] = ()


def _case(check: str, name: str, script: str, *lines: int) -> Case:
    return Case(f"{check}-{name}", f"source.{check}", dedent(script).lstrip("\n"), lines)


# Each entry is the check, a name, the script, and the lines that must be named.
CASES = tuple(_case(*entry) for entry in (*ORDER, *REFUSED, *SETTINGS, *IMAGES, *WORKERS))
