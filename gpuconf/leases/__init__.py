"""Leases: what each program on a machine has been promised of each card, without a daemon.

A ledger is a folder that all programs of a machine share, with a folder for each card.  A lease is
a file there whose name holds its arithmetic, and a lock on it that the kernel drops when the
process ends, however it ends.  A program that wants a lease holds the ledger's mutex while it reads
the leases, asks NVML and adds its own.

    folder   which folder it is, and why there is none
    lease    a lease as a value, and as the name of its file
    mutex    one at a time, waited for in the kernel, for a bounded time
    files    a lease's file as others see it
    ledger   leases read, swept, taken, released
    sweep    what the dead of all users have left, removed by an administrator
    view     the leases beside NVML's figures: what each holder may still take

``import gpuconf.auto`` loads none of this; a plan does.
"""
