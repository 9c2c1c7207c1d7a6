"""What is on this machine: cards, leases of programs, and what schedulers assign."""
