"""A checked profile as plain values: what the user asked for, before any card is looked at."""

from __future__ import annotations

from gpuconf.records import NamedTuple
from gpuconf.units import Amount


class OnShortage(NamedTuple):
    """What to do when a card has less left than ``at_least``: fail | cpu | wait.

    ``wait_s`` is infinite for ``wait: forever``.
    """

    action: str = "fail"
    wait_s: float | None = None


class MemoryRules(NamedTuple):
    """The ``memory:`` section.  None means "no such rule"; see docs/profiles.md."""

    allow_growth: bool | None = None
    per_process_gpu_memory_fraction: float | None = None
    memory_limit: Amount | None = None
    keep_free: Amount | None = None
    context: Amount | None = None
    enforce: str | None = None  # auto | mps | none
    lease: bool | None = None
    at_least: Amount | None = None
    on_shortage: OnShortage = OnShortage()
    share: str | None = None  # ray | slurm | kai | none


class GpuSelection(NamedTuple):
    """The ``gpus:`` key.  ``kind`` is one of all | none | list | pick.

    For ``list``, ``members`` holds indices (int) and UUIDs or prefixes of them (str).
    For ``pick``, ``pick`` is ``most-free`` and ``count`` how many.
    """

    kind: str = "all"
    members: tuple[int | str, ...] = ()
    pick: str = "most-free"
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which nobody needs here


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


class SlurmRules(NamedTuple):
    """The ``slurm:`` section."""

    shards_per_gpu: int | None = None


class GpuRules(NamedTuple):
    """What holds for one GPU: the profile's own rules, overridden by its ``per_gpu`` entry.

    ``processes`` is for how many processes at a time one plan is made; each gets the same limit.
    """

    memory: MemoryRules = MemoryRules()
    virtual_devices: tuple[Amount, ...] = ()
    processes: int = 1


class Note(NamedTuple):
    """A line for stderr about a profile's file, and the command that it ends in."""

    text: str
    command: str


class Profile(NamedTuple):
    """A whole profile, ``extends`` and overrides already merged in.

    ``per_gpu`` maps an index or UUID to the complete rules of that GPU (already merged with
    the profile's own), in the order of the file.  ``processes`` is how many processes share a
    plan, which no file says: `gpuconf run --processes` does.  ``source`` is the file's path,
    ``origin`` how it was reached: shipped, user, project or path.  ``notes`` are lines for stderr.
    Two profiles are equal if they ask for the same, however they were reached.
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
        """Whether JAX takes its share at once: its own key, else the opposite of ``growth``.

        None leaves it to JAX.
        """
        if self.jax.preallocate is None and growth is not None:
            return not growth
        return self.jax.preallocate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and self[:_COMPARED] == other[:_COMPARED]

    def __ne__(self, other: object) -> bool:  # tuple has one of its own
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:_COMPARED])


_COMPARED = Profile._fields.index("origin")
