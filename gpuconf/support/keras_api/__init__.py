"""Keras and TensorFlow beyond their documentation: every private name that gpuconf depends on.

Each file uses them for one purpose.  `tests/support/keras_api/contract.py` lists the names and
the consequences if one is missing; tests compare it with our sources and with the installed
versions.  The code that binds a plan to TensorFlow stays in ``backends/tensorflow``, which the
first line of a script loads; its names are listed, too.
"""
