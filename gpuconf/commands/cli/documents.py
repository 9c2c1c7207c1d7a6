"""The ``--json`` documents that no other package defines: plans, profiles and trust.

`make generated` writes the schemas in configs/ from these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count, FieldRule, json_shape
from gpuconf.basics.setting import Setting
from gpuconf.planner.plan import FrameworkLimit
from gpuconf.profile.trust import TrustedFile
from gpuconf.support.reporting.problems import ErrorProblem, ProfileProblem

json_shape(computed=("status",))(Setting)


@dataclass(frozen=True, slots=True)
class PlannedGpu:
    """A GPU that a program would see, and how much of it the program may use."""

    uuid: str | None
    """The UUID that nvidia-smi -L prints."""
    name: str | None
    """The GPU's name."""
    index: Count
    """The index that nvidia-smi uses."""
    total_bytes: Bytes | None
    """Total memory of the GPU."""
    free_bytes: Bytes | None
    """Memory that is free now."""
    promised_bytes: Bytes
    """Part of the free memory that leases of other programs may still take."""
    ahead: Count
    """How many programs are waiting for it."""
    limit_bytes: Bytes | None
    """How much a framework may take; None if there is no limit."""
    lease_bytes: Bytes | None
    """How much is leased when the plan is applied: limit plus context; None for no lease."""
    allow_growth: bool | None
    """Whether memory is allocated as needed; None if the profile does not set it."""
    logical_devices_bytes: tuple[Bytes, ...]
    """Sizes of the logical devices that TensorFlow creates on it; empty for the default one."""
    arithmetic: tuple[str, ...]
    """The calculation of the limit, line by line."""
    limits: Mapping[str, FrameworkLimit]
    """The limit of each framework: tensorflow, jax and torch."""


class PlanDocument(NamedTuple):
    """What a profile would do on this machine now."""

    profile: str
    """The profile's name."""
    source: str | None
    """The profile's file."""
    gpus: tuple[PlannedGpu, ...]
    """The GPUs that a program would see, in its order."""
    environment: Mapping[str, str]
    """The variables that would be set."""
    conflicts: tuple[Setting, ...]
    """Variables that already have a different value."""
    notes: tuple[str, ...]
    """What the machine lacks, and how the plan handles it."""


class ListedProfile(NamedTuple):
    """A profile that was found."""

    name: str
    """The profile's name."""
    path: str
    """The profile's file."""
    origin: Annotated[str, FieldRule(enum=("project", "user", "shipped"))]
    """Where the profile comes from."""
    description: str | None
    """The profile's own description."""
    is_shadowed: bool
    """Whether a profile of the same name takes precedence."""
    error: ErrorProblem | ProfileProblem | None
    """What is wrong with the profile."""


class ProfilesDocument(NamedTuple):
    """`gpuconf profiles list`."""

    profiles: tuple[ListedProfile, ...]
    """Every profile that was found, in order of precedence."""


class ShownProfile(NamedTuple):
    """`gpuconf profiles show`."""

    name: str
    """The profile's name."""
    source: str | None
    """The profile's file."""
    profile: dict[str, Any]
    """The profile with all inherited keys, as in configs/profile.schema.json."""


class CheckedProfile(NamedTuple):
    """`gpuconf profiles check`."""

    file: str
    """The file or profile name as given on the command line."""
    ok: bool
    """Whether the profile is valid."""
    errors: tuple[ErrorProblem | ProfileProblem, ...]
    """All errors in the profile."""
    refused_if_found: tuple[ErrorProblem | ProfileProblem, ...]
    """Settings of a valid file that gpuconf refuses if it finds it in an untrusted project."""


class NewlyTrusted(NamedTuple):
    """A file that is trusted from now on, until it changes."""

    path: str
    """The file's path."""
    variables: tuple[str, ...]
    """Variables set by the file that require trust."""
    untrusted: tuple[str, ...]
    """Files that it extends and that must be trusted separately."""
    problem: ErrorProblem | ProfileProblem | None
    """Why one of the extended files cannot be read."""


class TrustDocument(NamedTuple):
    """`gpuconf trust FILE`."""

    trusted: tuple[NewlyTrusted, ...]
    """The files, in the order given."""


class TrustListDocument(NamedTuple):
    """`gpuconf trust --list`."""

    trusted: tuple[TrustedFile, ...]
    """Every trusted file, sorted by path."""


class RevokedDocument(NamedTuple):
    """`gpuconf trust --revoke FILE`."""

    revoked: str
    """The path of the file that is no longer trusted."""


class ListedCheck(NamedTuple):
    """A `gpuconf doctor` check."""

    id: str
    """The check's id."""
    about: str
    """What the check examines."""


class ChecksDocument(NamedTuple):
    """`gpuconf doctor --list-checks`."""

    checks: tuple[ListedCheck, ...]
    """The checks, in execution order."""
