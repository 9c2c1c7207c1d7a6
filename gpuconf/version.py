"""The version of gpuconf; a plan carried to a child process is also checked against it."""

__version__ = "1.0.0rc1"
