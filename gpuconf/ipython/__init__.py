"""``%load_ext gpuconf``: the magic ``%gpuconf``, and a diagnosis below GPU memory tracebacks.

magic       a line's words become a command, and its result is shown
profile     `%gpuconf profile`; estimate and explain, which see the notebook's variables and errors
showing     HTML in notebooks, text in terminals; errors without a traceback
child       ps and doctor, in their own process
completion  TAB completion
drawing/    results as HTML, also without the extension
"""

from gpuconf.ipython.extension import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
