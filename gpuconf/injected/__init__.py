"""Code loaded into programs that are run or rehearsed, in Python 2.7, and in 3.5 and newer.

``site/sitecustomize.py`` is the only file in the folder added to PYTHONPATH.  It loads the other
modules by path, since the program's Python may be too old to import gpuconf.
"""

import os

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def with_site(path: str | None) -> str:
    """Return PYTHONPATH with the site folder first."""
    if not path:
        return SITE
    # An empty entry means the working directory.
    return os.pathsep.join([SITE, *(part for part in path.split(os.pathsep) if part != SITE)])
