#!/bin/sh
# A program in a container that shares a GPU with programs that use gpuconf on the host and in other
# containers:
#
#     sh docker-run.sh IMAGE python train.py
#
# On the host, once (docs/sharing.md), the folder of leases:
#
#     echo 'd /run/gpuconf 1777 root root -' | sudo tee /etc/tmpfiles.d/gpuconf.conf
#     sudo systemd-tmpfiles --create gpuconf.conf
#
# If the folder is missing, --mount is an error. -v would create one that is closed to other users
# and that gpuconf does not use: leases would be shared only within this container.
exec docker run --rm --gpus all --pid=host \
    --mount type=bind,source=/run/gpuconf,target=/run/gpuconf \
    --env GPUCONF_PROFILE=half-card \
    "$@"
