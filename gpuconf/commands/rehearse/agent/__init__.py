"""Runs inside the rehearsed program: counts its steps, traces its memory, and ends it.

It uses only the standard library, TensorFlow, and the lowest layer of gpuconf, because gpuconf may
not be installed in the program's Python. :mod:`gpuconf.injected` makes it available there.
"""
