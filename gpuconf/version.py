"""The version of gpuconf; what a carried plan is checked against, too."""

__version__ = "0.1.0"
