"""The steps of one estimate; each batch size is traced at most once."""

from __future__ import annotations

from collections.abc import Callable

from gpuconf.commands.estimate.estimate_request import EstimateRequest
from gpuconf.commands.estimate.scripts.step_function import StepFunction
from gpuconf.commands.estimate.step import Step

Progress = Callable[[str], None]


class TracedSteps:
    """A subject's steps at the requested batch sizes.

    The subject must not change in the meantime.  ``progress`` gets a line before each trace.
    """

    def __init__(
        self, subject: EstimateRequest | StepFunction, progress: Progress | None = None
    ) -> None:
        self.subject = subject
        self.progress = progress or _silent
        self._by_batch_size: dict[int, Step] = {}

    def trace(self, batch_size: int) -> Step:
        """The step at this batch size."""
        if batch_size not in self._by_batch_size:
            self.progress(f"tracing a {self.subject.kind} step at batch {batch_size}")
            self._by_batch_size[batch_size] = self.subject.trace(batch_size)
        return self._by_batch_size[batch_size]


def _silent(_text: str) -> None:
    """For callers that show no progress."""
