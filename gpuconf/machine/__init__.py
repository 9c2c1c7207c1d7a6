"""What is on this machine: GPUs, leases held by programs, and what schedulers assign."""
