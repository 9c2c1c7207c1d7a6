"""Who uses memory of the machine's GPUs, and who waits: `gpuconf ps`.

document   the values that --json prints
gathering  combines the ledger with NVML and /proc; sums up other users' processes
text       the same as lines for a terminal
"""
