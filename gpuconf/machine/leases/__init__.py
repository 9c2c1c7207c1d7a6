"""Leases: how much of each GPU each program on a machine has reserved, without a daemon.

docs/design.md says how ("How memory is promised").

    folder   which folder it is, and why there is none
    lease    a lease as a value, and as the name of its file
    mutex    one process at a time; a bounded wait
    files    a lease's file as other processes see it
    ledger   reads, sweeps, takes and releases leases
    view     leases and NVML's figures: what each holder may still take

``import gpuconf.auto`` loads none of this; making a plan does.
"""
