"""``gpuconf explain``: what `gpuconf.messages` read -> `Diagnosis`, with what to change.  Pure."""

import gpuconf.diagnosis.text  # noqa: F401  # registers how a Diagnosis is printed
from gpuconf.diagnosis.diagnosis import Diagnosis, Proposal
from gpuconf.diagnosis.explanation import explain, explain_chunks

__all__ = ["Diagnosis", "Proposal", "explain", "explain_chunks"]
