"""``%load_ext gpuconf``: the magic ``%gpuconf``, and a diagnosis below a traceback of GPU memory.

magic       a line's words become a command, and its value is shown
profile     `%gpuconf profile`; estimate and explain, which know the notebook's variables and errors
showing     HTML in notebooks, text in terminals; errors without a traceback
child       ps and doctor, in a process of their own
completion  what TAB offers
drawing/    values as HTML, also without the extension
"""

from gpuconf.ipython.extension import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
