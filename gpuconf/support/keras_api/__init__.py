"""Keras and TensorFlow beyond their documentation: every private name that gpuconf depends on.

`contract` lists the names and the consequences if one is missing; a test compares it with the
installed versions.  Each other file uses them for one purpose.  The code that binds a plan to
TensorFlow stays in ``backends/tensorflow``, which the first line of a script loads; its names
are listed, too.
"""
