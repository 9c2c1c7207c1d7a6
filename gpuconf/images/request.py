"""What `stream` is to read: the arguments, the parts, and their memory plans."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from sys import getsizeof
from typing import Any, ParamSpec, TypeVar

from gpuconf.basics.arguments import whole_number
from gpuconf.basics.terminal import debug
from gpuconf.errors import UsageError
from gpuconf.images.failures import Failures
from gpuconf.images.listing import ImageList, check_files, list_images, split
from gpuconf.images.memory_plan import Demand, MemoryPlan, plan_memory
from gpuconf.images.options import (
    LABEL_MODES,
    POLICIES,
    Picture,
    check_choice,
    check_flag,
    check_host_limit,
    check_seed,
    check_size,
    check_split,
)
from gpuconf.images.transforms import Transform, make_augment, make_scale

P = ParamSpec("P")
Asked = TypeVar("Asked")

_FLAGS = (
    *("shuffle", "drop_remainder", "antialias", "follow_links"),
    *("crop_to_aspect_ratio", "pad_to_aspect_ratio"),
)


@dataclass(frozen=True, eq=False)
class ImageRequest:
    """The arguments of `stream`, as passed.

    The function takes its signature from here; docs/reference/images.md describes each parameter.
    """

    paths: Any
    labels: Any = None
    _: KW_ONLY
    size: tuple[int, int]
    batch_size: int = 32
    channels: int = 3
    scale: Any = None
    augment: Any = None
    shuffle: bool = True
    seed: int | None = None
    host_limit: str | int = "2GiB"
    on_error: str = "raise"
    label_mode: str | None = "int"
    class_names: Sequence[str] | None = None
    validation_split: float | None = None
    subset: str | None = None
    drop_remainder: bool = False
    interpolation: str = "bilinear"
    antialias: bool = True
    crop_to_aspect_ratio: bool = False
    pad_to_aspect_ratio: bool = False
    path_column: str = "path"
    label_column: str | None = None
    follow_links: bool = False

    @cached_property
    def picture(self) -> Picture:
        """How a file becomes an array; raises UsageError for invalid options."""
        height, width = check_size(self.size)
        return Picture(
            height=height,
            width=width,
            channels=self.channels,
            interpolation=self.interpolation,
            antialias=self.antialias,
            crop_to_aspect_ratio=self.crop_to_aspect_ratio,
            pad_to_aspect_ratio=self.pad_to_aspect_ratio,
        )

    def check(self) -> None:
        """Raise a UsageError for invalid options, before any file is read."""
        self.picture  # noqa: B018  # it is checked where it is made
        check_choice("label_mode", self.label_mode, LABEL_MODES)
        check_choice("on_error", self.on_error, POLICIES)
        check_split(self.validation_split, self.subset)
        whole_number("batch_size", self.batch_size)
        check_host_limit(self.host_limit)
        for flag in _FLAGS:
            check_flag(flag, getattr(self, flag))
        check_seed(self.seed)
        if self.subset in ("training", "validation") and self.seed is None:
            raise UsageError(
                f"subset={self.subset!r} without a seed: two calls would create two "
                "overlapping splits",
                hint='seed=1 in both calls, or subset="both"',
            )
        make_augment(self.augment)
        make_scale(self.scale)

    @property
    def skips(self) -> bool:
        """Whether unreadable files are skipped."""
        return self.on_error == "skip"

    def make(self, one: Callable[[Part], Any]) -> Any:
        """Apply ``one`` to all images, to a subset, or to both subsets; add their attributes."""
        images = list_images(
            self.paths,
            self.labels,
            with_labels=self.label_mode is not None,
            class_names=self.class_names,
            path_column=self.path_column,
            label_column=self.label_column,
            follow_links=self.follow_links,
        )
        if not self.skips:
            check_files(images.paths)
        seed = _drawn_seed() if self.seed is None else int(self.seed)
        if self.validation_split is None:
            return self._part(images, seed).described(one)
        training, validation = split(images, self.validation_split, seed)
        if self.subset == "training":
            return self._part(training, seed).described(one)
        if self.subset == "validation":
            return self._part(validation, seed, training=False).described(one)
        # Both are open at once during fit().
        return (
            self._part(training, seed, sharers=2).described(one),
            self._part(validation, seed, training=False, sharers=2).described(one),
        )

    def _part(
        self, images: ImageList, seed: int, *, training: bool = True, sharers: int = 1
    ) -> Part:
        file_paths = tuple(map(os.fsdecode, images.paths))
        demand = Demand(
            images=len(images.paths),
            path_bytes=sum(map(getsizeof, (*images.paths, *file_paths)), sum(map(len, file_paths))),
            label_bytes=0 if images.labels is None else 2 * images.labels.values.nbytes,
            height=self.picture.height,
            width=self.picture.width,
            channels=self.picture.channels,
            batch_size=self.batch_size,
        )
        limit_bytes = check_host_limit(self.host_limit) // sharers
        plan = plan_memory(demand, host_limit_bytes=limit_bytes, cpus=_cpus())
        debug(f"images: {plan}")
        steps = (make_augment(self.augment) if training else None, make_scale(self.scale))
        return Part(
            request=self,
            images=images,
            file_paths=file_paths,
            plan=plan,
            seed=seed,
            shuffle=self.shuffle and training,
            failures=Failures(len(images.paths)),
            transforms=tuple(step for step in steps if step is not None),
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """All images, those for training, or those for validation, with the decisions made for them.

    Validation is neither shuffled nor augmented.
    """

    request: ImageRequest
    images: ImageList
    file_paths: tuple[str, ...]
    plan: MemoryPlan
    seed: int
    shuffle: bool
    failures: Failures
    transforms: tuple[Transform, ...]

    def described(self, make: Callable[[Part], Any]) -> Any:
        """Apply ``make`` to this part; add the attributes of Keras's own loader, and gpuconf's."""
        made = make(self)
        labels = self.images.labels
        made.class_names = None if labels is None else labels.class_names
        made.file_paths = self.file_paths
        made.memory_plan = self.plan
        made.skipped = self.failures
        return made


def _cpus() -> int:
    """The processors that this process may use; macOS reports only the machine's total."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _drawn_seed() -> int:
    """A seed from numpy's generator, which `keras.utils.set_random_seed` seeds."""
    import numpy as np

    return int(np.random.randint(2**31 - 1))


def answering(
    request: Callable[P, Asked],
) -> Callable[[Callable[[Asked], Any]], Callable[P, Any]]:
    """Turn a function of a request into a function of its arguments, also for ``help`` and typing.

    The parameters of `stream`, with their defaults, are therefore defined once.
    """
    signature = inspect.signature(request)

    def decorate(make: Callable[[Asked], Any]) -> Callable[P, Any]:
        @functools.wraps(make)
        def answer(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{make.__name__}() {error}") from None
            return make(request(*args, **kwargs))

        shown = signature.replace(return_annotation="Any")
        answer.__signature__ = shown  # type: ignore[attr-defined]
        return answer

    return decorate
