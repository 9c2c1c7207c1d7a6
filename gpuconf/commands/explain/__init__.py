"""``gpuconf explain``: `gpuconf.support.failures.Reading` -> `Diagnosis` with proposals.  Pure."""

import gpuconf.commands.explain.text  # noqa: F401  # registers how a Diagnosis is printed
from gpuconf.commands.explain.diagnosis import Diagnosis
from gpuconf.commands.explain.explanation import explain, explain_chunks
from gpuconf.support.failures.proposals.proposal import Proposal

__all__ = ["Diagnosis", "Proposal", "explain", "explain_chunks"]
