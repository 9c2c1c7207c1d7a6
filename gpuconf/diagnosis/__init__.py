"""``gpuconf explain``: what `gpuconf.messages` read -> `Diagnosis`, with what to change.  Pure."""

from gpuconf.diagnosis.diagnosis import Diagnosis, Proposal
from gpuconf.diagnosis.explanation import explain, explain_chunks

__all__ = ["Diagnosis", "Proposal", "explain", "explain_chunks"]
