"""gpuconf: one line at the top of a script makes a shared GPU safe."""

__version__ = "0.1.0"
