"""Who holds what of the machine's cards, and who waits: `gpuconf ps`.

document   the values that --json prints
gathering  the ledger beside NVML and /proc; the processes of other users summed up
text       the same as lines for a terminal
"""
