"""Tests of gpuconf/commands/ps: who holds what of each GPU, and who waits."""
