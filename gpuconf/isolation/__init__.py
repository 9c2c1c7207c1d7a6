"""``gpuconf.isolated``: a function in its own process, so that its GPU memory is free afterwards.

decorator, process    `isolated`; one process for one call, its output, Ctrl-C, its end
child                 its program: gpuconf first, then the function
arguments, results    what goes there and comes back; pickling, model_file: how
notebook              a notebook's cell as a function, and what it displays
"""

from gpuconf.isolation.decorator import isolated
from gpuconf.isolation.model_file import ModelFile

__all__ = ["ModelFile", "isolated"]
