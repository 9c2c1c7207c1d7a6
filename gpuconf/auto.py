"""``import gpuconf.auto``: apply ``$GPUCONF_PROFILE``, or the default profile, to this process."""

import os

from gpuconf.basics.terminal import is_debugging, say_instead_of_traceback
from gpuconf.errors import GpuconfError, without_frames
from gpuconf.session.configure import configure

try:
    if os.environ.get("GPUCONF_EXPLAIN"):  # so that only users who set it pay for the import
        from gpuconf.commands.explain.uncaught import install_if_asked

        install_if_asked()
    configure()
except GpuconfError as error:
    # The message is enough for a user error; our frames are noise.
    if not is_debugging():
        say_instead_of_traceback(error)
    raise without_frames(error) from None
