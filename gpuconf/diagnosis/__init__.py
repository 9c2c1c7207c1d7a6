"""``gpuconf explain``: `gpuconf.messages.Reading` -> `Diagnosis` with proposals.  Pure."""

import gpuconf.diagnosis.text  # noqa: F401  # registers how a Diagnosis is printed
from gpuconf.diagnosis.diagnosis import Diagnosis, Proposal
from gpuconf.diagnosis.explanation import explain, explain_chunks

__all__ = ["Diagnosis", "Proposal", "explain", "explain_chunks"]
