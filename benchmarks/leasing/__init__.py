"""Attempts to break the ledger: races on a simulated GPU, and kills at any call.

``sudden_death`` kills a process at its n-th system call.  ``racer`` is one tiny program on the
GPU, and ``race`` starts many at the same moment.  ``kill_cycles`` needs only the ledger.  The last
two are programs that ``benchmarks.leases`` starts, because the GPU's libraries are found when a
process starts.
"""
