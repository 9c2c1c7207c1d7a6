"""``gpuconf.isolated``: a function in its own process, so that its GPU memory is free afterwards.

decorator    `isolated`; process: one process for one call, its output, Ctrl-C, its end
arguments    what goes to the process, and which argument cannot
results      what comes back: values that need no GPU, or the exception
model_file   a Keras model between two processes
values       a pickle and its arrays in a memory file
child        the program: gpuconf first, then the function; displays: its figures in a notebook
cell         the code of a notebook's cell, as a function
"""

from gpuconf.isolation.decorator import isolated
from gpuconf.isolation.model_file import ModelFile

__all__ = ["ModelFile", "isolated"]
