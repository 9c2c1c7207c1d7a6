"""What runs inside the rehearsed program: counts its steps, traces its memory, ends it.

Standard library and TensorFlow alone, and of gpuconf only the ground: the program's Python need
not be the one that gpuconf is installed in.  :mod:`gpuconf.rehearsal.agent.site` is the folder
that is put on PYTHONPATH, and holds nothing but ``sitecustomize.py``: whatever lies beside that
file can be imported by the program, and must not hide a module of its own.
"""
