"""What `stream` and `sequence` have in common: the request, its parts, their memory plans."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.images.caching import IN_MEMORY, Cache, make_cache
from gpuconf.images.failures import Failures
from gpuconf.images.listing import ImageList, check_files, split
from gpuconf.images.memory_plan import Demand, MemoryPlan, plan_memory
from gpuconf.images.options import (
    LABEL_MODES,
    POLICIES,
    Picture,
    check_choice,
    check_count,
    check_flag,
    check_host_limit,
    check_seed,
    check_split,
)
from gpuconf.images.transforms import Transform, make_augment, make_scale
from gpuconf.terminal import debug


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the caller wants of whichever images there are, as it was given."""

    picture: Picture
    batch_size: int
    scale: Any
    augment: Any
    shuffle: bool
    seed: int | None
    cache: Any
    host_limit: str | int
    on_error: str
    label_mode: str | None
    validation_split: float | None
    subset: str | None
    drop_remainder: bool

    def check(self) -> None:
        """Raise a UsageError for what cannot be, before any file is looked for."""
        check_choice("label_mode", self.label_mode, LABEL_MODES)
        check_choice("on_error", self.on_error, POLICIES)
        check_split(self.validation_split, self.subset)
        check_count("batch_size", self.batch_size)
        check_host_limit(self.host_limit)
        check_flag("shuffle", self.shuffle)
        check_seed(self.seed)
        if self.subset in ("training", "validation") and self.seed is None:
            raise UsageError(
                f"subset={self.subset!r} without a seed: two calls would draw two splits that "
                f"overlap",
                hint='seed=1 in both calls, or subset="both"',
            )
        make_augment(self.augment)
        make_scale(self.scale)

    @property
    def skips(self) -> bool:
        """Whether files without a picture are left out."""
        return self.on_error == "skip"

    def make(self, images: ImageList, one: Callable[[Part], Any]) -> Any:
        """``one`` of the images, of their subset, or of both subsets."""
        if not self.skips:
            check_files(images.paths)
        seed = _drawn_seed() if self.seed is None else int(self.seed)
        if self.validation_split is None:
            return one(self._part(images, seed))
        training, validation = split(images, self.validation_split, seed)
        if self.subset == "training":
            return one(self._part(training, seed))
        if self.subset == "validation":
            return one(self._part(validation, seed, training=False))
        # Both are open at once while fit() runs.
        return (
            one(self._part(training, seed, sharers=2)),
            one(self._part(validation, seed, training=False, sharers=2)),
        )

    def _part(
        self, images: ImageList, seed: int, *, training: bool = True, sharers: int = 1
    ) -> Part:
        demand = Demand(
            images=len(images.paths),
            path_bytes=sum(map(len, images.paths)),
            height=self.picture.height,
            width=self.picture.width,
            channels=self.picture.channels,
            batch_size=self.batch_size,
            cached=isinstance(self.cache, str) and self.cache == IN_MEMORY,
        )
        limit_bytes = check_host_limit(self.host_limit) // sharers
        cpus = len(os.sched_getaffinity(0))
        plan = plan_memory(demand, host_limit_bytes=limit_bytes, cpus=cpus)
        debug(f"images: {plan}")
        steps = (make_augment(self.augment) if training else None, make_scale(self.scale))
        return Part(
            request=self,
            images=images,
            plan=plan,
            seed=seed,
            shuffle=self.shuffle and training,
            failures=Failures(len(images.paths)),
            cache=make_cache(self.cache, images.paths, self.picture),
            transforms=tuple(step for step in steps if step is not None),
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """All images, those for training, or those for validation, with what was decided for them.

    Validation is neither shuffled nor augmented.
    """

    request: Request
    images: ImageList
    plan: MemoryPlan
    seed: int
    shuffle: bool
    failures: Failures
    cache: Cache | None
    transforms: tuple[Transform, ...]

    def describe(self, made: Any) -> Any:
        """The same, with the attributes that Keras's own loader sets, and ours."""
        labels = self.images.labels
        made.class_names = None if labels is None else labels.class_names
        made.file_paths = tuple(map(os.fsdecode, self.images.paths))
        made.memory_plan = self.plan
        made.skipped = self.failures
        return made


def _drawn_seed() -> int:
    """From numpy's generator, which `keras.utils.set_random_seed` sets."""
    import numpy as np

    return int(np.random.randint(2**31 - 1))
