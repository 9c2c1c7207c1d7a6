"""``%load_ext gpuconf``: the magic ``%gpuconf``, and a diagnosis below GPU memory tracebacks.

magic       a line's words become a command, and its result is shown
profile, estimate, failures   `%gpuconf profile`, and what sees the notebook's variables and errors
child       ps and doctor, in their own process
drawing     the lines of a command's report, as HTML and as text
showing     HTML in notebooks, text in terminals
"""

from gpuconf.ipython.extension import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
