"""What is known of a step that failed, and what it may come to.  Pure values."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuconf.doctor.live.record import ProbedCard, Record, StepError


class Evidence(NamedTuple):
    """What is known of a step that failed: on ``card``, None where it was on several at once.

    ``log`` is what the child wrote to stdout and stderr; ``others`` are the other cards.
    """

    step: str
    error: StepError
    record: Record
    log: str = ""
    card: ProbedCard | None = None
    others: tuple[ProbedCard, ...] = ()
    only: int | None = None


class Cause(NamedTuple):
    """What it comes to: a summary that goes on after "GPU 0: ", lines, and what to paste."""

    summary: str
    fix: str
    detail: tuple[str, ...] = ()


# TensorFlow puts "Graph execution error:" and where the node was defined before what went wrong.
_TELLING = re.compile(
    r"OOM when|out of memory|CUDA_ERROR|CUDNN_STATUS|CUBLAS_STATUS|DNN library|Dst tensor"
    r"|libdevice|ptxas|[Aa]lgorithm",
    re.IGNORECASE,
)


def first_line(error: StepError) -> str:
    """The exception in one line, the one that tells most, without TensorFlow's brackets."""
    lines = [re.sub(r"\{\{[^}]*\}\}\s*", "", line).strip() for line in error.message.splitlines()]
    lines = [line for line in lines if line]
    telling = [line for line in lines if _TELLING.search(line)]
    text = next(iter([*telling, *lines]), "")
    return f"{error.kind}: {text}"[:300] if text else error.kind
