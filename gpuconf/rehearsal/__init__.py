"""``gpuconf rehearse``: a training script for a few steps on a simulated card: does it fit?

``runs`` starts the script with the ``agent`` in its Python and watches it; ``xplane`` and
``trace`` read what TensorFlow's profiler wrote of its allocators; ``breakdown``, ``suggestion`` and
``verdict`` are pure and say what that means; ``rehearse`` puts them in order; ``report`` and
``plot`` present it.

Nothing is imported here: the agent comes through this file in every Python process of the script.
"""
