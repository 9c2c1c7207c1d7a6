"""Who is using memory on the machine's GPUs, and who is waiting: `gpuconf ps`.

document the values that --json prints gathering combines the ledger with NVML and /proc; sums up
other users' processes text the same values as lines for a terminal
"""
