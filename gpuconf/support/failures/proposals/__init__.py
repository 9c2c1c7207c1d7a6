"""The changes that `gpuconf explain` and the doctor's probe propose, most promising first.

``changes/*.yaml`` contains the changes and says when each applies; `engine` reads it. `questions`
and `figures` name what the files can ask and insert.
"""

from __future__ import annotations

from gpuconf.support.failures.causes import Severity
from gpuconf.support.failures.proposals.engine import changes_for
from gpuconf.support.failures.proposals.memory import little_is_free
from gpuconf.support.failures.proposals.proposal import Proposal
from gpuconf.support.failures.reading import LogFacts

# Worth a change even if the run continued: a setting had no effect, the GPU is not fully used, or
# a file is missing.
_WORTH_A_CHANGE = (
    "late-config", "growth-mismatch", "compute-capability", "driver-mismatch", "no-device",
    "disk-full",
)  # fmt: skip


def proposals_for(cause: str, severity: Severity, facts: LogFacts) -> tuple[Proposal, ...]:
    """The changes for a cause, most promising first; none if the GPU is not the problem.

    A problem that the run survived needs no change, unless something is still not as intended.
    """
    if severity == "warning-only" and cause not in _WORTH_A_CHANGE:
        in_little = cause == "oom-device-startup" and little_is_free(facts)
        return changes_for("see-others", facts) if in_little else ()
    return changes_for(cause, facts)
