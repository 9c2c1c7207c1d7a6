"""What is on this machine: GPUs, leases of programs, and what schedulers assign."""
