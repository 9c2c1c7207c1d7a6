"""``gpuconf.isolated``: a function in its own process, so that its GPU memory is free afterwards.

decorator, process    `isolated`; one process for one call, its output, Ctrl-C, its end
child, displays       its program: gpuconf first, then the function; figures in a notebook
arguments, results    what goes there and comes back; pickling, values, model_file: how
cell                  the code of a notebook's cell, as a function
"""

from gpuconf.isolation.decorator import isolated
from gpuconf.isolation.model_file import ModelFile

__all__ = ["ModelFile", "isolated"]
