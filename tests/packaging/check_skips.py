"""Read pytest's summary and fail if a test was skipped that need not be: used by .ci/run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

GOOD_REASONS = ("needs a GPU", "needs root", "needs ../shared/corpus", "needs Python 3.11")
_SKIP = re.compile(r"^SKIPPED \[\d+\] (?P<where>\S+): (?P<reason>.*)$")


def bad_skips(log: str) -> list[str]:
    """The lines of pytest's ``-ra`` summary that skip for a reason we do not accept."""
    found = (_SKIP.match(line) for line in log.splitlines())
    return [
        match[0]
        for match in found
        if match and not any(reason in match["reason"] for reason in GOOD_REASONS)
    ]


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    skipped = [line for line in text.splitlines() if line.startswith("SKIPPED")]
    print(f"{len(skipped)} kinds of skips", *skipped, sep="\n  ")
    unexplained = bad_skips(text)
    if unexplained:
        sys.exit("skipped without a good reason:\n  " + "\n  ".join(unexplained))
