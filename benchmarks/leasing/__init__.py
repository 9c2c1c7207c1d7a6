"""Attempts to break the ledger: races on a simulated card, and kills at any call.

``sudden_death`` kills a process at its n-th system call.  ``racer`` is one tiny program on the
card, and ``race`` starts many at the same moment.  ``kill_cycles`` needs only the ledger.
``binding_cost`` measures the cost of a lease in the binding.  All but the first are also programs
that ``benchmarks.leases`` starts, because the card's libraries are found when a process starts.
"""
