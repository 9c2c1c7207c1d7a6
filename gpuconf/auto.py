"""``import gpuconf.auto``: apply ``$GPUCONF_PROFILE``, or the default profile, to this process."""

from gpuconf.bootstrap import configure
from gpuconf.errors import GpuconfError
from gpuconf.exception_hooks import install_if_asked

install_if_asked()
try:
    configure()
except GpuconfError as error:
    # A user's mistake is told by its message; the frames it took us to find it are noise.
    raise error.with_traceback(None) from None
