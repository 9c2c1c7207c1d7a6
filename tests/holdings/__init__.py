"""Tests of gpuconf/holdings: who holds what of each card, and who waits."""
