"""``gpuconf rehearse``: run a training script for a few steps on a simulated GPU: does it fit?

``runs`` starts the script with the ``agent`` in its Python process, and watches it. ``xplane`` and
``trace`` read the allocator events that TensorFlow's profiler wrote. ``breakdown``, ``suggestion``
and ``verdict`` are pure code that interprets these events. ``rehearse`` runs these in order.
``report`` and ``plot`` present the result.

Nothing is imported here, because importing the agent runs this file in every Python process of the
script.
"""
