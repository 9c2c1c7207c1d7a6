"""What runs inside the rehearsed program: counts its steps, traces its memory, ends it.

Standard library and TensorFlow alone, and of gpuconf only the ground: the program's Python need
not be the one that gpuconf is installed in.  :mod:`gpuconf.carried` brings it there.
"""
