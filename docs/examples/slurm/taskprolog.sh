#!/bin/sh
# TaskProlog of slurm.conf: what it prints as `export NAME=value` is in the task's environment.
# Slurm tells a job how many shards it has, but not how many a GPU has: write the number that
# gres.conf gives each GPU of this node here.
echo export GPUCONF_SHARDS_PER_GPU=8
