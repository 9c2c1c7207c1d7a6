"""Keys that are each valid but conflict with each other, checked after all files are merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuconf.basics.units import Amount, exact_size
from gpuconf.errors import ProfileError
from gpuconf.profile.model import MemoryRules, Profile
from gpuconf.profile.nodes import Mapping, Mark, Node, locate
from gpuconf.profile.problems import problem


class _Scope(NamedTuple):
    """The rules for all GPUs (``prefix`` is empty) or for one (``per_gpu.0.``)."""

    root: Mapping
    prefix: str
    memory: MemoryRules
    virtual_devices: tuple[Amount, ...]

    def written(self, key: str) -> tuple[str, Node] | None:
        """Return the full name and value of ``key`` as written for these GPUs, or None."""
        for full in (self.prefix + key, key):
            node = locate(self.root, full)
            if node is not None:
                return full, node
        return None

    def is_own(self, key: str) -> bool:
        """Whether the profile's own file, or the override, sets ``key``."""
        written = self.written(key)
        return written is not None and written[1].mark.file == self.root.mark.file

    def refuse(self, message: str, hint: str, *keys: str) -> ProfileError:
        """Return the error, placed at one of ``keys`` in the profile's own file or an override."""
        written = [at for key in keys if (at := self.written(key)) is not None]
        own = [(key, node) for key, node in written if node.mark.file == self.root.mark.file]
        key, node = (own or written)[0]
        others = [_at(k, n, node.mark) for k, n in written if k != key]
        message += f" ({'; '.join(others)})" if others else ""
        return problem(message, mark=node.mark, key=key, hint=hint)


def _at(key: str, node: Node, seen_from: Mark) -> str:
    file, line, _ = node.mark
    if file is None:
        return f"{key}: in the override"
    return f"{key}: line {line}" if file == seen_from.file else f"{key}: {file}:{line}"


def check(profile: Profile, root: Mapping) -> list[ProfileError]:
    """Return every impossible combination in ``profile``, which was read from ``root``."""
    scopes = [_Scope(root, "", profile.memory, profile.virtual_devices)]
    scopes += [
        _Scope(root, f"per_gpu.{gpu}.", rules.memory, rules.virtual_devices)
        for gpu, rules in profile.per_gpu
    ]
    problems: dict[tuple[Mark, str], ProfileError] = {}
    for scope in scopes:
        for found in _check_scope(profile, scope):
            where = Mark(found.file, found.line, found.column)
            problems.setdefault((where, found.message), found)
    return list(problems.values())


def _check_scope(profile: Profile, scope: _Scope) -> Iterator[ProfileError]:
    yield from _no_gpu_to_cut(profile, scope)
    yield from _devices_beyond_limit(scope)
    yield from _at_least_beyond_limit(scope)
    yield from _nothing_left(scope)
    yield from _limit_that_is_no_cap(profile, scope)


def _no_gpu_to_cut(profile: Profile, scope: _Scope) -> Iterator[ProfileError]:
    if profile.gpus.kind == "none" and scope.virtual_devices:
        message = "gpus: none leaves no GPU to split into virtual devices"
        hint = "write `virtual_devices: null`, or `gpus: all`"
        yield scope.refuse(message, hint, "virtual_devices", "gpus")


def _devices_beyond_limit(scope: _Scope) -> Iterator[ProfileError]:
    """Check the devices' total; shares refer to the limit, so without sizes the only bound is 100
    %."""
    shares = sum(device.share or 0 for device in scope.virtual_devices)
    sizes = sum(device.size_bytes or 0 for device in scope.virtual_devices)
    limit = scope.memory.memory_limit.size_bytes if scope.memory.memory_limit else None
    if round(shares, 9) > 1 or (shares == 1 and sizes):
        more = ", plus fixed sizes" if sizes else ""
        message = f"the devices request {shares * 100:.10g}% of the GPU's limit{more}"
        hint = "write percentages that add up to 100% or less, such as [50%, 50%]"
        yield scope.refuse(message, hint, "virtual_devices")
    elif limit is not None and sizes + int(shares * limit) > limit:
        asked = exact_size(sizes + int(shares * limit))
        message = f"the devices request a total of {asked}, but memory_limit is {exact_size(limit)}"
        hint = f"specify smaller devices, or set `memory_limit: {asked}`"
        yield scope.refuse(message, hint, "virtual_devices", "memory.memory_limit")


def _at_least_beyond_limit(scope: _Scope) -> Iterator[ProfileError]:
    wanted, memory = scope.memory.at_least, scope.memory
    if wanted is None:
        return
    part = memory.per_process_gpu_memory_fraction
    caps = [
        ("memory.memory_limit", memory.memory_limit),
        ("memory.per_process_gpu_memory_fraction", Amount(share=part) if part else None),
    ]
    for key, cap in caps:
        if cap is not None and _exceeds(wanted, cap):
            message = f"at_least is {wanted}, but the profile allows at most {cap}"
            hint = f"write `at_least: {cap}` or less, or raise {key}"
            yield scope.refuse(message, hint, "memory.at_least", key)


def _exceeds(one: Amount, other: Amount) -> bool:
    """Whether ``one`` is larger on every GPU; a size and a share cannot be compared."""
    if one.share is not None and other.share is not None:
        return one.share > other.share
    sizes = one.size_bytes, other.size_bytes
    return sizes[0] is not None and sizes[1] is not None and sizes[0] > sizes[1]


def _nothing_left(scope: _Scope) -> Iterator[ProfileError]:
    memory, wanted = scope.memory, scope.memory.at_least
    rules = {"keep_free": memory.keep_free, "context": memory.context}
    off = {name: rule for name, rule in rules.items() if rule and rule.share}
    share = sum(rule.share or 0 for rule in off.values())
    named = " and ".join(f"{name} {rule}" for name, rule in off.items())
    keys = [f"memory.{name}" for name in off]
    if round(share, 9) >= 1:
        message = f"no GPU memory remains after {named}"
        yield scope.refuse(message, "write `gpus: none` for no GPU", *keys)
    elif wanted and wanted.share and share and round(share + wanted.share, 9) > 1:
        message = f"at_least {wanted} and {named} exceed the GPU's memory"
        yield scope.refuse(message, "lower one of them", "memory.at_least", *keys)


_LIMITS = ("per_process_gpu_memory_fraction", "memory_limit", "keep_free", "context")


def _limit_that_is_no_cap(profile: Profile, scope: _Scope) -> Iterator[ProfileError]:
    """Reject limits with cuda_malloc_async, which uses the limit only as a pool threshold (TF
    2.21).
    """
    if profile.tensorflow.allocator != "cuda_malloc_async":
        return
    limits = [name for name in _LIMITS if getattr(scope.memory, name) is not None]
    if scope.virtual_devices:
        limits.append("virtual_devices")
    if limits:
        keys = [n if n == "virtual_devices" else f"memory.{n}" for n in limits]
        named = next(filter(scope.is_own, keys), keys[0])
        limit = named.rpartition(".")[2]
        message = f"cuda_malloc_async does not enforce this profile's {limit} for TensorFlow"
        hint = f"write `allocator: bfc`, or set to null: {', '.join(limits)}"
        yield scope.refuse(message, hint, "tensorflow.allocator", named)
