"""A program that plans with a profile, as a framework's start does, and takes memory of its lease.

``python lease_holder.py PROFILE MIB``: prints "planned" once it has the lease, "taken" once it has
the memory, then waits until its input ends.
"""

from __future__ import annotations

import sys

from gpuconf.profile import load_profile
from gpuconf.session.leasing import OwnLeases
from gpuconf.session.plans import plan_within
from tests.programs.cuda_client import MIB, Cuda

if __name__ == "__main__":
    profile = load_profile(sys.argv[1])
    leases = OwnLeases()
    leases.plan(lambda read: plan_within(profile, read=read), profile=profile.name)
    print("planned", flush=True)
    cuda = Cuda()
    assert cuda.enter() == 0
    assert cuda.allocate(int(sys.argv[2]) * MIB)[0] == 0
    print("taken", flush=True)
    sys.stdin.read()
