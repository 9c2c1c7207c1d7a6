"""The version of gpuconf; a plan carried to a child process is also checked against it."""

__version__ = "0.1.0"
