"""Tests of gpuconf/commands/ps: who holds what of each card, and who waits."""
