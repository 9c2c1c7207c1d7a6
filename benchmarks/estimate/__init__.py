"""Measured memory of a model's step, compared with the result of ``gpuconf.estimate``.

``python -m benchmarks.estimate peaks`` runs ``peaks``, and ``batches`` runs ``largest_batch``, for
``cases`` on the stages of ``benchmarks.stages``.  ``measurements`` measures and stores the results,
``estimates`` calls gpuconf, both in a process of ``child``.
"""
