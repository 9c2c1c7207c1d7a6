"""What ``--json`` prints where no room of the house has a value for it: plans, profiles, trust.

The schemas in configs/ are made from these types by `make generated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from gpuconf.json_shape import Bytes, Count, FieldRule, json_shape
from gpuconf.planner.plan import FrameworkLimit
from gpuconf.profile.trust import TrustedFile
from gpuconf.reporting.problems import ErrorProblem, ProfileProblem
from gpuconf.settings import Setting

json_shape(computed=("status",))(Setting)


@dataclass(frozen=True, slots=True)
class PlannedGpu:
    """A GPU that a program would see, and what it may take of it."""

    uuid: str | None
    """As nvidia-smi -L prints it."""
    name: str | None
    """The card's name."""
    index: Count
    """As nvidia-smi counts."""
    total_bytes: Bytes | None
    """Its memory."""
    free_bytes: Bytes | None
    """What is free of it now."""
    promised_bytes: Bytes
    """What of that other programs' leases may still take."""
    ahead: Count
    """How many programs wait for it."""
    limit_bytes: Bytes | None
    """What a framework may take; None where nothing limits it."""
    lease_bytes: Bytes | None
    """What is leased of it when the plan binds: the limit and the context; None for no lease."""
    allow_growth: bool | None
    """Whether memory is taken step by step; None where the profile does not say."""
    logical_devices_bytes: tuple[Bytes, ...]
    """The logical devices that TensorFlow makes of it; empty for none beyond the one."""
    arithmetic: tuple[str, ...]
    """The sum that made the limit, line by line."""
    limits: Mapping[str, FrameworkLimit]
    """What each framework may take, by tensorflow, jax and torch."""


class PlanDocument(NamedTuple):
    """What a profile would do on this machine now."""

    profile: str
    """The profile's name."""
    source: str | None
    """Its file."""
    gpus: tuple[PlannedGpu, ...]
    """The GPUs that a program would see, in its order."""
    environment: Mapping[str, str]
    """The variables that would be set."""
    conflicts: tuple[Setting, ...]
    """Variables that are set already, to something else."""
    notes: tuple[str, ...]
    """What the machine lacks, and what the plan did about it."""


class ListedProfile(NamedTuple):
    """A profile that can be found."""

    name: str
    """Its name."""
    path: str
    """Its file."""
    origin: Annotated[str, FieldRule(enum=("project", "user", "shipped"))]
    """Whose it is."""
    description: str | None
    """What it says that it is for."""
    is_shadowed: bool
    """Whether a nearer one of the same name hides it."""
    error: ErrorProblem | ProfileProblem | None
    """What is wrong with it."""


class ProfilesDocument(NamedTuple):
    """`gpuconf profiles list`."""

    profiles: tuple[ListedProfile, ...]
    """Every profile that can be found, the nearest first."""


class ShownProfile(NamedTuple):
    """`gpuconf profiles show`."""

    name: str
    """The profile's name."""
    source: str | None
    """Its file."""
    profile: dict[str, Any]
    """The profile with all that it inherits, as configs/profile.schema.json says."""


class CheckedProfile(NamedTuple):
    """`gpuconf profiles check`."""

    file: str
    """The file, or the profile's name, as it was given."""
    ok: bool
    """Whether it is good."""
    errors: tuple[ErrorProblem | ProfileProblem, ...]
    """All that is wrong with it."""
    refused_if_found: tuple[ErrorProblem | ProfileProblem, ...]
    """What of a good file is refused where gpuconf finds it in a project that is not trusted."""


class NewlyTrusted(NamedTuple):
    """A file that is trusted from now on, until it changes."""

    path: str
    """Its path."""
    variables: tuple[str, ...]
    """The variables that it sets and that need trust."""
    untrusted: tuple[str, ...]
    """The files that it extends and that need trust of their own."""
    problem: ErrorProblem | ProfileProblem | None
    """Why one of those cannot be read."""


class TrustDocument(NamedTuple):
    """`gpuconf trust FILE`."""

    trusted: tuple[NewlyTrusted, ...]
    """The files, in the order given."""


class TrustListDocument(NamedTuple):
    """`gpuconf trust --list`."""

    trusted: tuple[TrustedFile, ...]
    """Every file that was trusted, by its path."""


class RevokedDocument(NamedTuple):
    """`gpuconf trust --revoke FILE`."""

    revoked: str
    """The path of the file that is trusted no more."""


class ListedCheck(NamedTuple):
    """A check of the doctor."""

    id: str
    """Its name."""
    about: str
    """What it looks at."""


class ChecksDocument(NamedTuple):
    """`gpuconf doctor --list-checks`."""

    checks: tuple[ListedCheck, ...]
    """The checks, in the order in which they run."""
