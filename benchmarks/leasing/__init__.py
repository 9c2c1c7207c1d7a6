"""What tries to break the ledger: races on a simulated card, and kills at any call.

``sudden_death`` kills a process at its n-th system call; ``racer`` is one tiny program on the card
and ``race`` starts many at one instant; ``kill_cycles`` needs the ledger alone; ``binding_cost``
measures what a lease adds to the binding.  Each but the first is also a program that
``benchmarks.leases`` starts: the card's libraries are found when a process starts.
"""
