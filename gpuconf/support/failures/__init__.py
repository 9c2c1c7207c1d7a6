"""The single failure parser: log text or an exception -> `Reading`, its cause and facts.  Pure.

``gpuconf explain``, ``doctor --probe``, ``rehearse`` and the batching calls all use it.
"""

from gpuconf.support.failures.headline import headline
from gpuconf.support.failures.reader import read, read_chunks, read_error
from gpuconf.support.failures.reading import Evidence, LogFacts, Reading

__all__ = ["Evidence", "LogFacts", "Reading", "headline", "read", "read_chunks", "read_error"]
