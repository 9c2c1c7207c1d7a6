"""Measured memory of a model's step, compared with the result of ``gpuconf.estimate``.

``estimated_models`` and ``estimate_cases`` are the tables. ``stage_child`` runs one case, and
``stages`` defines where. ``measured_peaks`` stores the measurements. ``estimates`` calls gpuconf.
``accuracy_table``, including its ``machine_facts``, formats the results.
"""
