"""What goes along into programs that are run or rehearsed: Python 2.7 and 3.5 to the newest.

``site/sitecustomize.py`` is the only file in a folder that goes on PYTHONPATH; it loads the others
by their path, since the program's Python may be too old to import gpuconf.
"""

import os

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")


def with_site(path: str | None) -> str:
    """PYTHONPATH with that folder first."""
    if not path:
        return SITE
    # An empty part means the working directory.
    return os.pathsep.join([SITE, *(part for part in path.split(os.pathsep) if part != SITE)])
