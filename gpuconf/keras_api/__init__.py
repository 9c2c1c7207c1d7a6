"""Keras and TensorFlow beyond their documentation: every private name that gpuconf leans on.

`contract` lists the names, and what is lost without each; a test holds it against the installed
versions.  Each other file does one thing with them.  What binds a plan to TensorFlow stays in
``backends/tensorflow``, which the first line of a script loads; its names are in the list, too.
"""
