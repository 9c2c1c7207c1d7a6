"""A checked profile as plain values: what the user requested, independent of any GPU."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.units import Amount


class OnShortage(NamedTuple):
    """What to do if a GPU has less memory left than ``at_least``: fail | cpu | wait.

    ``wait_s`` is infinite for ``wait: forever``.
    """

    action: str = "fail"
    wait_s: float | None = None


class MemoryRules(NamedTuple):
    """The ``memory:`` section.  None means "no such rule"; see docs/reference/profiles.md."""

    allow_growth: bool | None = None
    per_process_gpu_memory_fraction: float | None = None
    memory_limit: Amount | None = None
    keep_free: Amount | None = None
    context: Amount | None = None
    lease: bool | None = None
    reserve: Amount | None = None
    hold: bool | None = None
    at_least: Amount | None = None
    on_shortage: OnShortage = OnShortage()
    share: str | None = None  # ray | slurm | none


class GpuSelection(NamedTuple):
    """The ``gpus:`` key.  ``kind`` is one of all | none | list | pick.

    For ``list``, ``members`` holds indices (int) and UUIDs or UUID prefixes (str).  For ``pick``,
    ``pick`` is ``most-free`` and ``count`` is the number of GPUs.
    """

    kind: str = "all"
    members: tuple[int | str, ...] = ()
    pick: str = "most-free"
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which is unused here


class TensorFlowRules(NamedTuple):
    """The ``tensorflow:`` section."""

    allocator: str | None = None  # bfc | cuda_malloc_async
    cudnn_workspace_limit: int | None = None  # bytes
    session: str = "auto"  # auto | graph | none


class JaxRules(NamedTuple):
    """The ``jax:`` section."""

    preallocate: bool | None = None
    allocator: str | None = None  # default | platform | cuda_async | vmm


class TorchRules(NamedTuple):
    """The ``torch:`` section."""

    expandable_segments: bool | None = None
    garbage_collection_threshold: float | None = None
    max_split_size: int | None = None  # bytes
    report_free: str | None = None  # limit or device


class SlurmRules(NamedTuple):
    """The ``slurm:`` section."""

    shards_per_gpu: int | None = None


class GpuRules(NamedTuple):
    """The rules for one GPU: the profile's own rules, overridden by its ``per_gpu`` entry.

    ``processes`` is the number of concurrent processes that a plan is made for; each gets the same
    limit.
    """

    memory: MemoryRules = MemoryRules()
    virtual_devices: tuple[Amount, ...] = ()
    processes: int = 1


class Note(NamedTuple):
    """A line for stderr about a profile's file, and the command at the end of that line."""

    text: str
    command: str


class Profile(NamedTuple):
    """A complete profile with ``extends`` and overrides merged in.

    ``per_gpu`` maps an index or UUID to the complete rules of that GPU (already merged with the
    profile's own), in file order.  ``processes`` is the number of processes that share a plan; it
    is set by `gpuconf run --processes`, not by a file.  ``source`` is the file's path, and
    ``origin`` is how it was reached: shipped, user, project or path.  ``notes`` are lines for
    stderr.

    Two profiles are equal if they request the same things, whatever their names and locations.
    """

    name: str
    source: str | None = None
    description: str | None = None
    gpus: GpuSelection = GpuSelection()
    memory: MemoryRules = MemoryRules()
    virtual_devices: tuple[Amount, ...] = ()
    per_gpu: tuple[tuple[int | str, GpuRules], ...] = ()
    tensorflow: TensorFlowRules = TensorFlowRules()
    jax: JaxRules = JaxRules()
    torch: TorchRules = TorchRules()
    slurm: SlurmRules = SlurmRules()
    env: tuple[tuple[str, str], ...] = ()
    processes: int = 1
    origin: str = "path"
    notes: tuple[Note, ...] = ()

    def preallocates_in_jax(self, growth: bool | None) -> bool | None:
        """Whether JAX preallocates its share: its own key, or else the opposite of ``growth``.

        None leaves the decision to JAX.
        """
        if self.jax.preallocate is None and growth is not None:
            return not growth
        return self.jax.preallocate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and self[_ASKED] == other[_ASKED]

    def __ne__(self, other: object) -> bool:  # tuple defines its own
        return not self == other

    def __hash__(self) -> int:
        return hash(self[_ASKED])


_ASKED = slice(Profile._fields.index("gpus"), Profile._fields.index("origin"))
