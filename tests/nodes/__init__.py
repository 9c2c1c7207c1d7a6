"""Tests of gpuconf/nodes: the doctor on many machines, over ssh and over Ray."""
