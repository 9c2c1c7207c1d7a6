"""Leases: what each program on a machine has reserved of each GPU, without a daemon.

A ledger is a folder that all programs of a machine share, with a subfolder for each GPU.  A lease
is a file there.  Its name holds the figures, and a lock on it is dropped by the kernel when the
process ends, however it ends.  A program that takes a lease holds the ledger's mutex while it reads
the leases, queries NVML and adds its own.

    folder   which folder it is, and why there is none
    lease    a lease as a value, and as the name of its file
    mutex    one process at a time; a bounded wait
    files    a lease's file as other processes see it
    ledger   reads, sweeps, takes and releases leases
    view     leases and NVML's figures: what each holder may still take

``import gpuconf.auto`` loads none of this; making a plan does.
"""
