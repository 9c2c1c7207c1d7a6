"""What goes along into programs that `gpuconf run` starts: Python 2.7 and 3.5 to the newest.

``site/sitecustomize.py`` is the only file in a folder that goes on PYTHONPATH; it loads the others
by their path, since the program's Python may be too old to import gpuconf.
"""
