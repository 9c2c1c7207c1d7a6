#!/bin/sh
# TaskProlog of slurm.conf: what it prints as `export NAME=value` is in the task's environment.
# Slurm says to a job how many shards it has, and not how many a GPU has: write here what
# gres.conf gives each GPU of this node.
echo export GPUCONF_SHARDS_PER_GPU=8
