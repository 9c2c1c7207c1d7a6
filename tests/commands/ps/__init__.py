"""Tests of gpuconf/commands/ps: who uses what of each GPU, and who waits."""
