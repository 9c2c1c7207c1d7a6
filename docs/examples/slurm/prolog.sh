#!/bin/sh
# Prolog of slurm.conf, as root before each job: the folder in which jobs see each other's leases.
# Jobs with a private /tmp and /dev/shm (job_container/tmpfs) share it too.
[ -d /run/gpuconf ] || install -d -m 1777 /run/gpuconf
