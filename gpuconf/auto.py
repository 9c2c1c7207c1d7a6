"""``import gpuconf.auto``: apply ``$GPUCONF_PROFILE``, or the default profile, to this process."""

import os

from gpuconf.bootstrap import configure
from gpuconf.errors import GpuconfError, is_debugging, without_frames

try:
    if os.environ.get("GPUCONF_EXPLAIN"):  # so that only users who set it pay for the import
        from gpuconf.exception_hooks import install_if_asked

        install_if_asked()
    configure()
except GpuconfError as error:
    # The message is enough for a user error; our frames are noise.
    if not is_debugging():
        from gpuconf.terminal import say_instead_of_traceback

        say_instead_of_traceback(error)
    raise without_frames(error) from None
