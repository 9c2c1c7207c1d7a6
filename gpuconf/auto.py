"""``import gpuconf.auto``: apply ``$GPUCONF_PROFILE``, or the default profile, to this process."""

from gpuconf.bootstrap import configure

configure()
