"""What a step of a model really takes, measured, beside what ``gpuconf.estimate`` says it takes.

``estimated_models`` and ``estimate_cases`` are the tables; ``stage_child`` runs one case and
``stages`` says where; ``measured_peaks`` keeps what was measured; ``estimates`` asks gpuconf;
``accuracy_table`` and ``machine_facts`` are what is printed.
"""
