"""How the run went: its progress, its exceptions, and whether it was killed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.support.failures.log.watchers import LogLine

_MOST = 2000
# Only a running training prints these; figures of loss and step also occur in summaries.
_STEPS = re.compile(
    r"\bepoch\W{0,3}\d|(?<!\d)[1-9]\d{0,8}/\d{1,9} \[|\d{1,9}/\d{1,9} .{0,400}(?:s/step|s/epoch)"
    r"|\d(?:it/s|s/it)\b"
    r"|evaluation \[\d{1,9}/\d{1,9}\]|\btrial \d{1,6} (?:finished|complete)\b",
    re.IGNORECASE,
)
_FIGURES = re.compile(
    r"\b(?:global[_ ]?step|step|iter|iteration)\W{1,3}\d|\b(?:val_)?(?:loss|acc|accuracy)\W{1,3}\d",
    re.IGNORECASE,
)
_STEP_NUMBER = re.compile(r"\b(?:step|iter|iteration)\W{1,3}(\d{1,12})", re.IGNORECASE)
_ENDED_WELL = re.compile(
    r"finished (?:training|evaluation)|training (?:is )?(?:finished|completed?|done)\b",
    re.IGNORECASE,
)
_SPLIT = re.compile(r"^gpuconf: .{1,400}samples do not fit; continuing with \d")
_MADE_GPU = re.compile(r"Creat(?:ed|ing) (?:TensorFlow )?device .{0,80}(?:device:GPU|/gpu):\d")
# Headers of messages that begin on a later line, and the lines between.
_SAYS_NOTHING = re.compile(
    r"Graph execution error:\s*$|Exception encountered when calling .{0,200}$|Error:\s*$"
)
_NO_MESSAGE = re.compile(r"Detected at node|File \"|During handling|Traceback|\d{1,9} root error")
_LINES_OF_A_MESSAGE = 80
# A class name and its message; "[rank0]: ", "(pid=12) ", pytest's "E   " or a time may precede it.
_EXCEPTION = re.compile(
    r"^[^A-Za-z_]{0,40}(?:[A-Za-z_]\w{0,19}[ =]?\d{0,9}\)?:?\s{1,9})?"
    r"((?:[A-Za-z_]\w{0,80}\.){0,10}_?[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Unavailable|NotFound))"
    r"(?:\s{0,9}:\s{0,9}(.*)|\s{0,99}(?:\(see above.*|$))"
)
_R_ERROR = re.compile(r"^(Error)(?: in [^:]{1,200})?\s*:\s*(.*)")
_BARE = re.compile(r"^\s*(?:assert|raise|except|return|#)")
_CUT_OFF = re.compile(
    r"\baborted\b|segmentation fault|core dumped|terminate called|fatal python error"
    r"|kernel (?:appears to have )?died|kernel restarting|dead kernel|access violation"
    r"|exit code:? ?-?[1-9]|exited with (?:code|status) [1-9]|non-zero exit status|sigabrt|sigsegv"
    r"|check failed|killed",
    re.IGNORECASE,
)
_FATAL_LINE = re.compile(
    r"(?:^|: )F [.\w]\S{0,160}\.(?:cc|cpp|cu|h):\d{1,9}\]|^F\d{4} [\d:.]{1,40}\s{1,9}\d{1,9} "
)


# Not "device": disks also report "no space left on device".
_ABOUT_GPUS = re.compile(r"\bGPUs?\b|\bCUDA|NCCL|nvidia|cuDNN|\bXLA\b", re.IGNORECASE)


def speaks_of_gpus(message: str) -> bool:
    """Whether the last words of an exception or a shell are about a GPU."""
    return _ABOUT_GPUS.search(message) is not None


def says_nothing(line: str) -> bool:
    """Whether a line only introduces a message that comes later."""
    return _SAYS_NOTHING.search(line) is not None or _NO_MESSAGE.match(line) is not None


class Raised(NamedTuple):
    """The last line of an exception: its place in the log, the class and the message."""

    line: LogLine
    kind: str
    message: str

    @property
    def name(self) -> str:
        """The class name without its modules."""
        return self.kind.rpartition(".")[2]


class OutcomeWatcher:
    """Watches a log for progress, exceptions and fatal errors."""

    phrases: Sequence[str] = (
        "epoch", "step", "loss", "acc", "accuracy", "it s", "s it", "s step", "ms step", "iter",
        "iteration", "global step", "evaluation", "eta", "finished", "s epoch",
        "aborted", "segmentation fault", "core dumped", "terminate called", "died", "exit code",
        "exited with", "exit status", "sigabrt", "sigsegv", "check failed", "killed", "dead kernel",
        "restarting", "access violation", "training complete", "training completed",
        "training done", "training is", "trial complete", "created device",
        "created tensorflow device", "creating tensorflow device", "continuing with",
        "traceback most recent call last", "f tensorflow", "f external", "f c", "f d", "f t",
    )  # fmt: skip
    parts: Sequence[str] = ("error", "exception", "interrupt")

    def __init__(self) -> None:
        self.raised: list[Raised] = []
        self.has_traceback = False
        self.cut_off: list[LogLine] = []
        self.wants = 0
        self.has_gpu = False  # whether a framework created a GPU device
        self._steps: list[int] = []
        self._last_step = -1

    def see(self, line: LogLine) -> None:
        """Note the facts about the run in a line."""
        text = line.text[:_MOST]
        if _STEPS.search(text) or (_FIGURES.search(text) and self._goes_on(text)):
            self._steps.append(line.number)
        if _ENDED_WELL.search(text):
            self._steps += [line.number] * 2
        if _SPLIT.search(text):  # the line repeats the error, so what continues is below it
            self._steps += [line.number + 1] * 2
        self.has_traceback = self.has_traceback or "Traceback (most recent" in text
        self.has_gpu = self.has_gpu or _MADE_GPU.search(text) is not None
        found = _EXCEPTION.match(text) or (None if ".cc:" in text else _R_ERROR.match(text))
        if found is not None and not _BARE.match(text):
            self.raised.append(Raised(line, found[1], (found[2] or "").strip()))
            self.wants = _LINES_OF_A_MESSAGE if _SAYS_NOTHING.search(text) else 0
        elif _FATAL_LINE.search(text) or _CUT_OFF.search(text):
            self.cut_off.append(line)

    def follow(self, line: LogLine) -> None:
        """Take the message of an exception whose own line has none."""
        self.wants -= 1
        text, last = line.text.strip(), self.raised[-1]
        if not text or line.number == last.line.number or _NO_MESSAGE.match(text):
            return
        self.raised[-1] = last._replace(message=f"{last.message} {text[:300]}".strip())
        self.wants = 0

    def _goes_on(self, text: str) -> bool:
        """Whether figures show progress: after an exception they may belong to a summary."""
        if not self.raised:
            return True
        found = _STEP_NUMBER.search(text)
        if found is None:
            return False
        before, self._last_step = self._last_step, int(found[1])
        return 0 <= before < self._last_step

    def progress_after(self, number: int) -> int:
        """The number of known progress lines after line ``number``."""
        numbers = sorted(self._steps)
        return len(numbers) - bisect_right(numbers, number)

    def progress_before(self, number: int) -> int:
        """The number of known progress lines before line ``number``."""
        return sum(1 for each in self._steps if each < number)
