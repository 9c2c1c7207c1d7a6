#!/bin/sh
# A program in a container that shares a GPU with gpuconf's programs on the host and in other
# containers:
#
#     sh docker-run.sh IMAGE python train.py
#
# On the host, once (docs/sharing.md), the folder of leases:
#
#     echo 'd /run/gpuconf 1777 root root -' | sudo tee /etc/tmpfiles.d/gpuconf.conf
#     sudo systemd-tmpfiles --create gpuconf.conf
#
# Where the folder is missing, --mount is an error. -v would make one that is closed to other users
# and that gpuconf does not use: its leases would be shared within this container alone.
exec docker run --rm --gpus all --pid=host \
    --mount type=bind,source=/run/gpuconf,target=/run/gpuconf \
    --env GPUCONF_PROFILE=half-card \
    "$@"
