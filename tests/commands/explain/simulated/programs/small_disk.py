"""A disk of 200 kB for this process alone: a tmpfs in its own namespace (Linux, as root)."""

import ctypes
import os
import subprocess

_NEW_NAMESPACE = 0x20000  # CLONE_NEWNS: the mount is gone when the process ends


def make_small_disk(folder, used=0):
    """Make ``folder`` a disk of its own, with so many bytes used."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NAMESPACE):
        raise OSError(ctypes.get_errno(), "no namespace of its own: run this as root")
    os.mkdir(folder)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], check=True)
    with open(os.path.join(folder, "older"), "wb") as file:
        file.write(b"\0" * used)
